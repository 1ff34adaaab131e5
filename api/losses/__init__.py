"""/v1/lost-datastreams: recovery of definitions that ZooKeeper has lost."""
