"""Judges latency against the SLA of each datastream, acts when acting can help, audits completeness.

Rules are pure and numbered; the clock is passed in. Knows the mirror through REST and Pinot, never
through imports of its running parts. Read `latency.py`, then `incidents.py` and `cycle.py`.
"""
