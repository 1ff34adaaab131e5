"""State of the service in ZooKeeper, one module for each kind of node."""
