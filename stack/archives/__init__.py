"""Class archives, which save brokers and ZooKeeper up to half of the processor time of a start."""
