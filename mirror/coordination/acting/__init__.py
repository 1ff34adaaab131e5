"""Rebalances by monitors: the lease of the active monitor, past rebalances, and the switch of operators.

One node contains the state of the monitors. A request for a rebalance and the check that the monitor still
owns the lease are therefore one transaction. May import the stores. Read `state.py`, then `store.py`.
"""
