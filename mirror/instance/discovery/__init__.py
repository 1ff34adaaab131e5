"""What an instance finds out about clusters: topics, partitions, and routes between clusters."""
