"""What Pinot remembers: loads of partitions by hour, and how late a datastream's records were.

`points.py` has the answers and what follows from them, and needs no client; `loads.py` and `latency.py` ask.
"""
