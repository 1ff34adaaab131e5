"""Initial partitions of a datastream that starts at `latest`: only these start at their end.

Imports coordination's stores and model. Read `first_partitions.py`.
"""
