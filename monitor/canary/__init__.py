"""Canary of a datastream: one record a second, written at the source and read at the destination.

`ledger.py` judges delivery and is pure; start there. `gate.py` decides about a release, and `metrics.py`
exports the figures. `monitor/alerts/canaries.py` derives alerts, and `monitor/adapters/canary_probe.py`
writes and reads the records. May import `mirror`.
"""
