"""Permission of monitors to act: the lease of the active one, their past actions, and the switch of
operators.

All of this state is in one znode, so that a rebalance is requested in one transaction with the proof that the
monitor still holds the lease. May import the stores. Read `state.py`, then `store.py`.
"""
