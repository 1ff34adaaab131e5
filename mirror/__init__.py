"""The mirroring service, and the domain model that all other packages share.

Assigns partitions to owners and copies them. Imports no other package of the project. Read `mirror/model`
first, then `mirror/ports.py`, then `mirror/worker/process.py`.
"""
