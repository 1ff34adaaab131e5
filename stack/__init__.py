"""Runs the real servers on one machine: ZooKeeper, Kafka clusters, Pinot; no root, Docker or Java needed.

Decides where their jars and their Java come from, how they are configured, when they are ready and
that none outlives its use. Imports nothing of the other wings. Read `supervisor.py` first; a single
server is `zookeeper.py`, `kafka.py` or `pinot.py`; their common life is `server.py` over `held.py`.
"""
