"""Determines the number of tasks and the partitions of each task, with a proven bound on the optimum.

A pure function of loads, capacity, limits, policy and the current placement. The planner uses no clock and no
client library. Only `search/exact.py` uses OR-Tools. The package may import mirror's model, ports, errors and
options, and `mirror.coordination` for the distribution of tasks over hosts. Start with `problem/problem.py`
(the input) and `planner.py` (the order of the stages). Layers from the top: `what_if` > `planner.py` >
`answer` > `stages` > `search` > `bounds` > `forecast` > `problem`.
"""
