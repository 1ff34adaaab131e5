"""Built-in connectors; `mirror.replication.connector` is their contract.

Read `files.py` first, which writes and reads Avro files. `kafka.py` implements the same two Protocols for
Kafka itself.
"""
