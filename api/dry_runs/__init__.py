"""Dry runs computed by the leader, available on every instance. Read `previews.py`."""
