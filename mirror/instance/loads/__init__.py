"""Partition loads that the leader knows: observations, latest reports, and their age."""
