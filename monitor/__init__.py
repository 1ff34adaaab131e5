"""Monitoring of latency objectives: evaluates datastreams, requests rebalances that can help.

Rules are pure and numbered; the clock is passed in. Observes the mirror through REST and Pinot and never
imports its running parts. Read `latency.py`, then `incidents.py` and `cycle.py`.
"""
