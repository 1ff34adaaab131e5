"""Synchronisation of consumer groups while the instance leads. Read `thread.py`."""
