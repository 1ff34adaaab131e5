"""Deleted datastreams on record. Read `record.py`."""
