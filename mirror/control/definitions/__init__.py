"""Checks of a new or changed definition against the other ones. Read `checks.py`."""
