"""Continuous audits of datastreams by the instances that run their lanes. Start with `auditor.py`."""
