"""Discovery of clusters: topics, partitions, and routes between clusters."""
