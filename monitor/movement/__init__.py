"""State of each partition, determined by the movement of its position and not by a lag threshold.

Pure: the clock is passed in. Imports `mirror.model` only; instances evaluate their own lanes with it, through
`api`. Read `judge.py`, whose docstring is the table of rules, then `catch_up.py`.
"""
