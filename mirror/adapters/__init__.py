"""What satisfies the protocols of `ports.py`: ZooKeeper by kazoo, Kafka by our own client (`kafka/`).

kazoo's errors are translated here, once: `zookeeper_errors.py`. No other room imports it.
"""
