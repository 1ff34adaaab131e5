"""Finds topics and partitions on the clusters, and routes between clusters."""
