"""Authentication and authorization: the principal of each request, and the permissions of its role.

Start with `rights.py` (principal, action, owners) and `table.py`, which lists every endpoint; neither imports
HTTP. `gate.py` authenticates requests; `mirror.control.caller` checks permissions at each write.
"""
