"""What monitors may do to the service: which of them judges, what they did, and whether a person forbids it.

One znode holds all of it, so that a rebalance is asked for in one transaction with the proof that its monitor
still has the lease. May import the stores. Read `state.py`, then `store.py`.
"""
