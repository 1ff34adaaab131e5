"""Runs the real servers on one machine: ZooKeeper, Kafka clusters, Pinot; no root, Docker or Java needed.

Decides where their jars and their Java come from, how they are configured and when they are ready, and
stops each with the process that started it. Imports nothing of the other wings. Read `supervisor.py` first;
a single server is `zookeeper.py`, `kafka.py` or `pinot.py`; their common life is `server.py` over
`process/managed_process.py`.
"""
