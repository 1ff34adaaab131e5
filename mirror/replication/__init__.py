"""Replication engine of a worker process: copies partitions between two clusters.

`lane/` makes the decisions, `protocol/` defines the formats, and `client/` connects to brokers. Start with
`engine.py` (the interface to the worker), then `context.py`, `lanes/` and `channels/`.
"""
