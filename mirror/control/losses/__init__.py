"""What operators do about datastreams that ZooKeeper has lost. Read `lost_datastreams.py`."""
