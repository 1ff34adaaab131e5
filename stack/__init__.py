"""Real servers on one machine: ZooKeeper, Kafka clusters and Pinot, without root, Docker or Java.

Finds their jars and their Java, configures them, determines when they are ready, and stops each with the
process that started it. Imports no other package of Headrace. Read `supervisor.py` first; single servers are
in `zookeeper.py`, `kafka.py` and `pinot.py`; what they share is in `server.py`, on top of
`process/managed_process.py`.
"""
