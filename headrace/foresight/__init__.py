"""The leader's forecast and advice: `history.py` caches past loads, `needs.py` the tasks that they required,
`turn.py` computes, `run.py` is the thread."""
