"""Partition loads known to the leader: observations, the latest reports, and their age."""
