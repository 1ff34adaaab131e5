"""Initial partitions of a datastream that starts at `latest`: only these partitions start at the end of their
log.

Imports coordination's stores and model. Read `first_partitions.py`.
"""
