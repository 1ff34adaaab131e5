"""Creates class archives, with which brokers and ZooKeeper start in about half of the processor time."""
