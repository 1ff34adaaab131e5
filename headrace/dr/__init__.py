"""Switch-over of a pair of clusters: requests to the clusters and the service. Read `acts.py` first.

The import rules of `headrace.copy` apply.
"""
