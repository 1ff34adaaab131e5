"""Queries about partitions: loads, offending partitions and hourly rollups.

Queries over all partitions of a cluster use the pages of `pages.py`. Imports `client.py` and the modules
below it.
"""
