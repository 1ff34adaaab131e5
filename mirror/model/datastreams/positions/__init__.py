"""Explicit offsets at which partitions of a datastream begin. Read `start_positions.py`."""
