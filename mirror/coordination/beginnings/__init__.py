"""Initial partitions of a datastream that starts at the end: only these start at their end.

Imports coordination's stores and model. Read `first_partitions.py`.
"""
