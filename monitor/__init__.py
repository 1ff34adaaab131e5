"""Evaluates the latency objectives of datastreams, and requests rebalances that can help.

Decisions are pure: callers pass the time as an argument. The package reads the state of the service through
REST and Pinot, and imports no code of a running instance. Read `latency.py` first, then `incidents.py` and
`cycle.py`.
"""
