"""What the leader knows of the loads of partitions and source clusters, for /v1."""
