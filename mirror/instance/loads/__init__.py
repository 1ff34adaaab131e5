"""Partition loads for the leader: observations, latest reports, and their age."""
