"""Coordination without a server, for one instance: a file of commands on the local disk.

The state machine is `mirror/coordination/store`. Read `store.py`, then `record_file.py`.
"""
