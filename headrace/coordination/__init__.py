"""The coordination store that the settings choose: ZooKeeper, topics of a Kafka cluster, or a file for one
instance alone.

Read `client.py`; `document.py` and `transfer.py` move the state from one store to another.
"""
