"""Counters that make concurrent changes of one group or owner conflict. Read `guard.py`."""
