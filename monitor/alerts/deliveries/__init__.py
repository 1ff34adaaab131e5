"""What one receiver has yet to be told, in which words, and the thread that does it.

Imports `monitor/alerts/alert.py` and its metrics. Read `outbox.py`, which says when a receiver is told.
"""
