"""Client of one Kafka cluster: connections on an event loop, metadata, coordinators, reads and writes.

Imports lane, protocol, options, ports, model and errors; no client library. Start with `cluster.py`.
"""
