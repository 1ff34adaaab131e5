"""Detects definitions that ZooKeeper has lost, and keeps them. Read `watch.py`."""
