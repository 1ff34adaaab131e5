"""Kafka client for one cluster: connections on an event loop, metadata, coordinators, reads and writes.

Imports only lane, protocol, options, ports, model and errors, and no third-party Kafka client. Start with
`cluster.py`.
"""
