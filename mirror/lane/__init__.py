"""Everything that is true of one partition's copying. Pure: no sockets, no clock of its own.

Imports wire, ports, model and errors. `lane.py` holds the invariants; `batch_router.py` decides how each
batch goes on its way; `ledger.py` and `offset_map.py` say what became of every offset and where it is;
`progress.py` is what survives a restart.
"""
