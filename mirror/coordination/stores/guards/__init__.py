"""Counters by which concurrent changes of one group, or of one owner, conflict. Read `guard.py`."""
