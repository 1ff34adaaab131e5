"""Switch-over of a pair of clusters: its states, the order of its acts, and their undo.

May import what `mirror.jobs` may. Read `operation.py` first, then `driver.py`.
"""
