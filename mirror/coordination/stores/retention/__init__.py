"""Retention limits per group in a folder of nodes, so that no group evicts another. Read `shares.py`."""
