"""Ownership of partitions: pure decisions, and the layout of the shared state in ZooKeeper.

Imports ports, model and errors; access to ZooKeeper is injected as `ports.NodeStore`. Read `planning.py` (the
leader's decision), then `reconcile.py` (its execution by every instance).
"""
