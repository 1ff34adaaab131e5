"""Implementations of the protocols in `ports.py`: ZooKeeper by kazoo, Kafka by our own client (`kafka/`).

kazoo's errors are translated in one place, `zookeeper_errors.py`. No other folder imports kazoo.
"""
