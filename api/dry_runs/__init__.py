"""Dry runs: the leader computes them, whichever instance gets the request. Read `dry_runs.py`."""
