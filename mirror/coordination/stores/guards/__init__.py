"""Counters that detect concurrent changes of the same group or owner. Read `guard.py`."""
