"""The stages of planning, in order. Imports `search`, `bounds` and `problem`.

`outcome.py` is the entry point. `full.py` places all partitions. `incremental.py` keeps placed partitions,
using `hysteresis.py` (number of tasks), `eviction.py` (partitions that must leave), `placement.py` (their new
tasks) and `improvement.py` (the solver). `relabel.py` maps new tasks to current tasks; `budget.py` reduces a
plan to the allowed moves.
"""
