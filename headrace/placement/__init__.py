"""Planner, load providers and world views of an instance. Start with `planners.py`."""
