"""Checks whether a datastream may be restarted from the beginning. Start with `clusters.py`."""
