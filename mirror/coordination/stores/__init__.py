"""What the service keeps in ZooKeeper, one module for each kind of node."""
