"""Assignment of partitions to instances: pure decisions, and the layout of the shared state.

Imports ports, model and errors; access to the store is injected as `ports.NodeStore`. Start with
`planning.py` (decisions of the leader), then read `reconcile.py` (execution by every instance).
"""
