"""Planner: determines the number of tasks and the partitions of each, with a proven optimality bound.

Pure: maps loads, capacity, limits, policy and the current placement to a plan with bounds; no clock, no
client library, OR-Tools in `search/exact.py` only. May import mirror's model, ports, errors and options, and
its coordination for the distribution of tasks over hosts. Read `problem/problem.py` (the input), then
`planner.py` (the order of the stages). Layers from the top: `what_if` > `planner.py` > `answer` > `stages` >
`search` > `bounds` > `forecast` > `problem`.
"""
