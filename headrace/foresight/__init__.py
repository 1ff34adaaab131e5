"""The leader's forecast and advice: `sums.py` caches the past sums of groups, `history.py` loads of
partitions, `needs.py` the tasks that past hours required; `turn.py` computes, `run.py` is the thread."""
