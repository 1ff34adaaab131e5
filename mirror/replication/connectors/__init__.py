"""Built-in connectors; `mirror.replication.connector` defines their contract.

Start with `files.py`, which writes and reads Avro files. `kafka.py` implements the same two Protocols for
Kafka itself.
"""
