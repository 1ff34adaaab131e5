"""How many tasks, and who carries what, with a proof of how good the answer is.

Pure: loads, capacity, limits, policy and the current placement in, a plan with bounds out; no clock,
no client library, OR-Tools in `exact.py` only. May import mirror's model, ports, errors and settings, and its
coordination for how tasks are spread over hosts.
Read `problem.py` (what is asked), then `planner.py` (the order of the stages).
"""
