"""Replication engine of a worker process: copies partitions between two clusters.

The decisions are in `lane/`, the formats in `protocol/`, and the connections to brokers in `client/`. Read
`engine.py` first (the interface to the worker), then `context.py`, `lanes/` and `channels/`, where batches
enter and leave.
"""
