"""Switch-over and failover of a pair of clusters: the state, the steps, and their undo.

The import rules of `mirror.jobs` apply. Read `operation.py` first, then `driver.py`.
"""
