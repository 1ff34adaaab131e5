"""Delivery of alerts to one receiver: queue, message format and thread.

Imports `monitor/alerts/alert.py` and its metrics. Read `outbox.py`, which decides when to send.
"""
