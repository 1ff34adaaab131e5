"""Fixtures of the metrics pipeline and Pinot benchmarks: servers, sessions and rows."""
