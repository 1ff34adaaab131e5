"""Canary of a datastream: one record a second, written at the source and read at the destination.

Start with `ledger.py`, which checks the delivery. `gate.py` decides about a release, and `canary_metrics.py`
exports the results. `monitor/alerts/canaries.py` derives alerts, and `monitor/adapters/canary_probe.py`
writes and reads the records. May import `mirror`.
"""
