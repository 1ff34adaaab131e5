"""The mirroring service, and the domain model that all other packages share.

Assigns partitions to instances and copies them. Imports no other package of the project. Start with
`mirror/model`, then read `mirror/ports.py` and `mirror/worker/process.py`.
"""
