"""Coordination store of a single instance: a file of commands on the local disk, without a server.

The state machine is `mirror/coordination/store`. Read `store.py`, then `record_file.py`.
"""
