"""Switch-over of a pair of clusters: the states, the order of the steps, and how to undo them.

The import rules of `mirror.jobs` apply. Read `operation.py` first, then `driver.py`.
"""
