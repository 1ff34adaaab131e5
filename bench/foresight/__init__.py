"""Benchmarks of the leader's forecast and advice, and of forecasts on real series."""
