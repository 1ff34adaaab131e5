"""Load forecast and sizing advice of the leader.

`sums.py` caches the past load sums of groups, `history.py` the past loads of partitions, and `needs.py` the
number of tasks that past hours required. `sizing_advisor.py` computes the advice, and `run.py` is the thread.
"""
