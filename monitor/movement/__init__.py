"""State of each partition, determined by the movement of its position and not by a lag threshold.

No clock: callers pass the time as an argument. `monitor.movement` imports only `mirror.model`; instances use
it through `api` to evaluate their own lanes. Start with the table of rules in the docstring of `judge.py`,
then read `catch_up.py`.
"""
