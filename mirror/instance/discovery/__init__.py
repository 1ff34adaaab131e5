"""Discovery of topics and partitions on the clusters, and of routes between clusters."""
