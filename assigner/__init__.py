"""Planner: determines the number of tasks and the partitions of each, with a proven optimality bound.

A pure function of loads, capacity, limits, policy and the current placement, without a clock or client
library. Only `search/exact.py` uses OR-Tools. May import mirror's model, ports, errors and options, and its
coordination for the distribution of tasks over hosts. Read `problem/problem.py` (the input), then
`planner.py` (the order of the stages). Layers from the top: `what_if` > `planner.py` > `answer` > `stages` >
`search` > `bounds` > `forecast` > `problem`.
"""
