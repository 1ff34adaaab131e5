"""Authentication and authorization: the principal of each request, and the permissions of its role.

Decisions import no HTTP: read `rights.py` (principal, action, owners) first, then `table.py`, which lists
every endpoint. `gate.py` authenticates requests; `mirror.control.caller` checks permissions at each write.
"""
