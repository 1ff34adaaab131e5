"""Copies one partition. Pure: this package uses no sockets and no clock.

Imports protocol, ports, model and errors. `lane.py` enforces the invariants; `batch_router.py` decides how
each batch is processed; `ledger.py` and `offset_map.py` record the class of every source offset and its
position at the destination; `progress.py` is the state that survives a restart.
"""
