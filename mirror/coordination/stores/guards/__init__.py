"""Counters that detect concurrent changes of the same group or owner. Start with `guard.py`."""
