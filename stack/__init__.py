"""Real servers on one machine: ZooKeeper, Kafka clusters and Pinot, without root, Docker or Java.

Finds the jars and the Java of the servers, configures the servers, determines when they are ready, and stops
each server with the process that started it. Imports no other package of Headrace. Read `supervisor.py`
first; single servers are in `zookeeper.py`, `kafka.py` and `pinot.py`; their base class is in `server.py`,
which uses `process/managed_process.py`.
"""
