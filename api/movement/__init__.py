"""The instances judge their own lanes: what they know of one as facts, and sums for metrics.

Imports `monitor.movement`, where the rules are, and what instances know of lanes. Read `verdicts.py` first;
`topics.py` counts partitions that are not OK.
"""
