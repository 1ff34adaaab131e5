"""Rebalances by monitors: the lease of the active monitor, past rebalances, and permission by operators.

One node has the whole state, so one transaction can check the lease and request a rebalance. May import the
stores. Read `state.py` first.
"""
