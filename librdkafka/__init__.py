"""Settings, errors and log of confluent-kafka, which only `pmp`, the tests and the benchmarks use.

It is a second client, with which the results of our own are compared.
"""
