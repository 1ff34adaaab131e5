"""Which datastreams were deleted. Read `record.py`."""
