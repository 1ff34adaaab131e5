"""Ownership of partitions: pure decisions, and the layout of the shared state in ZooKeeper.

Imports ports, model and errors. ZooKeeper is accessed through `ports.NodeStore`. Read `planning.py`
(decisions of the leader), then `reconcile.py` (their execution by every instance).
"""
