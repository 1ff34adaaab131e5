"""Synchronisation of consumer groups while the instance is leader. Read `thread.py`."""
