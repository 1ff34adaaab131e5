"""Rebalances by monitors: lease of the active monitor, past rebalances, and permission by operators.

All this state is in one node, so one transaction can check the lease and request a rebalance. May import the
stores. Start with `state.py`, then read `store.py`.
"""
