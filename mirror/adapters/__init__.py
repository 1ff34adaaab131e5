"""Implementations of `ports.py`: ZooKeeper with kazoo, and Kafka with Headrace's own client (`kafka/`).

Only `zookeeper_errors.py` translates kazoo's errors. No other folder imports kazoo.
"""
