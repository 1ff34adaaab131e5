"""Who may call what: the principal of each call, and what its role has a right to.

Decisions import nothing of HTTP: `rights.py` (principal, action, owners) first, then `table.py`, which has
every endpoint. `gate.py` finds out who asks; `mirror.control.caller` asks for rights at each write.
"""
