"""Commands for pairs of clusters, below `headrace dr`. `session.py` has their shared parts."""
