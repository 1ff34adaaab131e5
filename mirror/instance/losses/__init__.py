"""Notices definitions that ZooKeeper has lost and remembers them beyond this process. Read `watch.py`."""
