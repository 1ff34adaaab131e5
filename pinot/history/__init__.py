"""Queries of history in Pinot: hourly loads of partitions, and latencies of a datastream's records.

`points.py` defines the results and computations on them, without a client; `hourly_loads.py` and `latency.py`
run queries.
"""
