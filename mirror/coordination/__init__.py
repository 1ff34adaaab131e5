"""Who owns what. Pure decisions, and the layout of the shared state in ZooKeeper.

Imports ports, model and errors; ZooKeeper itself comes in as `ports.NodeStore`.
Read `planning.py` (what the leader decides), then `reconcile.py` (what every instance does about it).
"""
