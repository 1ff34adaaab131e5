"""The configured coordination store: ZooKeeper, topics of a Kafka cluster, or a file (for a single instance).

Start with `client.py`. `document.py` and `transfer.py` move the state from one store to another.
"""
