"""Initial partitions of datastreams that start at `latest`.

Only the initial partitions start at the end of their log.

Imports the stores of coordination and model. Start with `first_partitions.py`.
"""
