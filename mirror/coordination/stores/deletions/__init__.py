"""Records of deleted datastreams. Start with `record.py`."""
