"""Explicit start offsets of partitions. Start with `start_positions.py`."""
