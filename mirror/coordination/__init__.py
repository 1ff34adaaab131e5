"""Assignment of partitions to instances: pure decisions, and the layout of the shared state.

Imports ports, model and errors; access to the store is injected as `ports.NodeStore`. Read
`plan_decision.py` (the leader's decision), then `reconcile.py` (its execution by every instance).
"""
