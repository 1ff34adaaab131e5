"""Lower bounds on any placement. Imports `problem` only.

`lower_bounds.py`: bounds of the number of tasks, of the highest load of a task, and of the moved bytes.
`covers.py`: the lightest partitions whose removal relieves a task; `subsets.py` enumerates their sums.
"""
