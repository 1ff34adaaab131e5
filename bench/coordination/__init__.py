"""Benchmarks of the leader and its instances, under faults and with many datastreams."""
