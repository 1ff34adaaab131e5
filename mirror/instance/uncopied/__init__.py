"""Partitions that are selected but not copied: paused by an operator, without a task, or excluded by a rule.

The leader tracks them and their backlog. Read `partitions.py`. Imports coordination, ports, model and errors,
and from the neighbouring packages the leader's view of clusters.
"""
