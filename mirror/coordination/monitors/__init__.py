"""Rebalances by monitors: the lease of the active monitor, past rebalances, and the switch with which
operators permit rebalances.

One node contains the state of the monitors. One transaction can therefore request a rebalance and check that
the monitor still owns the lease. May import the stores. Read `state.py`, then `store.py`.
"""
