"""Continuous audits of the lanes that this instance runs. Read `thread.py`."""
