"""Proofs of how good any placement can be. Imports `problem` only.

`lower_bounds.py`: fewest tasks, lowest maximum, fewest moved bytes. `covers.py`: the lightest partitions
whose leaving relieves a task; `subsets.py` enumerates their sums.
"""
