"""The only rooms that import kazoo and confluent_kafka; they satisfy the protocols of `ports.py`.

Client errors are translated here, once: `kafka_errors.py`, `zookeeper_errors.py`.
"""
