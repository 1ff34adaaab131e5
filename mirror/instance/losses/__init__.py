"""Detects definitions that the coordination store has lost, and keeps copies of them. Start with
`watch.py`."""
