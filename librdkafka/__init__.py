"""Settings, errors and log of confluent-kafka, which only `pmp`, the tests and the benchmarks use.

Tests and benchmarks compare this client with Headrace's own Kafka client.
"""
