"""Use cases for datastreams that the coordination store has lost. Read `lost_datastreams.py`."""
