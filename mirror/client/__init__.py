"""Kafka client for one cluster: connections on an event loop, metadata, coordinators, reads and writes.

Imports no third-party Kafka client. Start with `cluster.py`.
"""
