"""Record of deleted datastreams. Read `record.py`."""
