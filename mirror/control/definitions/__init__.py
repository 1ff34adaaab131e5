"""Validation of a new or changed definition against existing ones. Read `checks.py`."""
