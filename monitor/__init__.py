"""Evaluates the latency objectives of datastreams, and requests rebalances that can help.

Decisions are pure: callers pass the time as an argument. The package reads the state of the service through
REST and Pinot, and does not import the code of a running instance. Start with `latency.py`, then read
`incidents.py` and `cycle.py`.
"""
