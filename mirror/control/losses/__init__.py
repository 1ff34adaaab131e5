"""Use cases for datastreams that ZooKeeper has lost. Read `lost_datastreams.py`."""
