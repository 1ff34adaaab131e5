"""Implementations of the protocols in `ports.py`: ZooKeeper with kazoo, Kafka with Headrace's own client
(`kafka/`).

Only `zookeeper_errors.py` translates kazoo's errors. No other folder imports kazoo.
"""
