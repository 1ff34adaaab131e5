"""What Pinot knows about partitions: their loads, the offending ones, hourly rollups. Every question about
all partitions of a cluster goes in the pages of `pages.py`. Imports `client.py` and what is below it.
"""
