"""Monitor of latency objectives: evaluates each datastream and requests rebalances that can help.

Decisions are pure: callers pass the time as an argument. The package reads the state of the mirror through
REST and Pinot, and does not import the code of a running instance. Read `latency.py`, then `incidents.py` and
`cycle.py`.
"""
