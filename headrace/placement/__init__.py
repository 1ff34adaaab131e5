"""Planner, load providers and fleet planners of an instance. Start with `planners.py`."""
