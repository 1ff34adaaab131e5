"""Loads of partitions and source clusters known to the leader, for /v1."""
