"""Replication engine of a worker process: copies partitions between two clusters.

`lane/` makes the decisions, `protocol/` defines the formats, and `client/` connects to brokers. Read
`engine.py` (the interface to the worker) first, then `context.py`, `lanes/` and `channels/`.
"""
