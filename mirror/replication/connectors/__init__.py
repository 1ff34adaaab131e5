"""Built-in connectors; `mirror.replication.connector` is their contract.

Read `files.py` first: Avro files of records, as a sink and as a source. `kafka.py` is Kafka itself behind the
same two Protocols.
"""
