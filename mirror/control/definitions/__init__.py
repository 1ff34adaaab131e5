"""Validation of a new or changed definition against existing definitions. Read `checks.py`."""
