"""/v1/lost-datastreams: what an operator does about definitions that ZooKeeper has lost."""
