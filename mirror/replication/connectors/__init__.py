"""Built-in connectors. `mirror.replication.connector` defines their contract.

`files.py` writes and reads Avro files; `kafka.py` implements the same Protocols for Kafka.
"""
