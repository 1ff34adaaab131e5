"""Lanes, each of which copies one partition. Pure: this package uses no sockets and no clock.

`lane.py` enforces the invariants. `batch_router.py` decides how each batch is processed. `ledger.py` stores
the class of every source offset, `offset_map.py` its destination offset, and `progress.py` the state that
survives a restart.
"""
