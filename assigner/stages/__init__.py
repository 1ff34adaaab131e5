"""The decisions of a plan, in their order. Imports `search`, `bounds` and `problem`.

`outcome.py` is the entry: `full.py` places everything; `incremental.py` keeps what is placed, with
`hysteresis.py` (how many tasks), `eviction.py` (what must leave), `placement.py` (where it goes) and
`improvement.py` (the solver). `relabel.py` names tasks after those in force; `budget.py` cuts a plan down
to the moves that are allowed.
"""
