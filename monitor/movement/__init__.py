"""What a partition's copying is doing, judged by how its position moves and not by a threshold of its lag.

Pure: values in, values out, the clock passed in. Imports `mirror.model` only; instances judge their own lanes
with it, through `api`. Read `judge.py`, whose docstring is the table of rules, then `catch_up.py`.
"""
