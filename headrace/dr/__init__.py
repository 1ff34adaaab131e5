"""Switch-over of a pair of clusters: its acts on clusters and the service. Read `acts.py` first.

May import what `headrace.copy` may.
"""
