"""Explicit start offsets of a datastream's partitions. Read `start_positions.py`."""
