"""Lower bounds on any placement. Imports `problem` only.

`lower_bounds.py`: fewest tasks, lowest maximum, fewest moved bytes. `covers.py`: the lightest partitions
whose removal relieves a task; `subsets.py` enumerates their sums.
"""
