"""Every datastream at a glance, in an answer that stays small: sums instead of partitions.

Each instance adds up its own lanes by topic (`sums.py`); the one that is asked puts them together with the
definitions, the plan, what the last planning found, and open incidents (`answers.py`).
"""
