"""confluent-kafka for the metrics provider, whose results are compared with those of another client.

Contains its settings, the translation of its errors, and its log. Only `pmp`, tests and benchmarks use it.
"""
