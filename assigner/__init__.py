"""Decides the number of tasks and the partitions of each, with a proof of how good the answer is.

Pure: loads, capacity, limits, policy and the current placement in, a plan with bounds out; no clock, no
client library, OR-Tools in `search/exact.py` only. May import mirror's model, ports, errors and options,
and its coordination for how tasks are spread over hosts. Read `problem/problem.py` (what is asked), then
`planner.py` (the order of the stages). The rooms, from the top: `what_if` > `planner.py` > `answer` >
`stages` > `search` > `bounds` > `forecast` > `problem`.
"""
