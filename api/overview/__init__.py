"""Overview of all datastreams, in a small response: sums instead of partitions.

Each instance adds up its own lanes by topic (`sums.py`); the queried instance combines them with the
definitions, the plan, the last planning and open incidents (`answers.py`).
"""
