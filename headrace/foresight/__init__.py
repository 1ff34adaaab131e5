"""The leader's load forecast, and its advice on the number of tasks and instances.

`sums.py` caches the past load sums of groups, `history.py` the past loads of partitions, and `needs.py` the
number of tasks that past hours required. `turn.py` computes the advice, and `run.py` is the thread.
"""
