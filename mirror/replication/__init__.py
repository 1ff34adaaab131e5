"""Replication engine of a worker process: copies partitions between two clusters.

`lane/` and `protocol/` decide, `client/` talks to brokers. Read `engine.py` first (the interface to the
worker), then `context.py`, `lanes/` and `channels/`, where batches enter and leave.
"""
