"""Detects definitions lost by ZooKeeper and keeps them beyond this process. Read `watch.py`."""
