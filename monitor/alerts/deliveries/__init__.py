"""Delivers alerts to a receiver: its queue, message format and thread.

Imports `monitor/alerts/alert.py` and `monitor/alerts/alert_metrics.py`. Start with `outbox.py`, which decides
when to send.
"""
