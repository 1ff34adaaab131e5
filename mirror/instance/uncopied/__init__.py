"""Partitions that are selected but not copied: paused by an operator, without a task, or excluded by a rule.

The leader tracks these partitions and their backlog. Read `partitions.py`. Imports coordination, ports,
model, errors, and the leader's view of clusters.
"""
