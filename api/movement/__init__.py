"""Judgement of an instance's own lanes: their state as facts, and sums for metrics.

Imports the rules in `monitor.movement`, and the lane state of instances. Read `verdicts.py` first;
`topics.py` counts partitions that are not OK.
"""
