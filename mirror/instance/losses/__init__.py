"""Detects definitions that the coordination store has lost, and keeps them. Read `watch.py`."""
