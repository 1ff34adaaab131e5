"""Which partitions a datastream that begins at the end had at its start: only those begin there.

Imports coordination's stores and model. Read `first_partitions.py`.
"""
