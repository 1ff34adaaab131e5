"""The connectors that are part of Headrace, each held to `mirror.replication.connector`.

Read `files.py` first: Avro files of records, as a sink and as a source. `kafka.py` is Kafka itself behind the
same two Protocols.
"""
