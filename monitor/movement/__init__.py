"""Determines the state of each partition by the movement of its position, not by a threshold of lag.

No clock: callers pass the time as an argument. `monitor.movement` imports only `mirror.model`; instances use
it through `api` to evaluate their own lanes. Start with the table of rules in the docstring of `judge.py`,
then read `catch_up.py`.
"""
