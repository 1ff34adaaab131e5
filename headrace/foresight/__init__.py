"""The leader's forecast and advice: `history.py` keeps the past, `needs.py` the tasks that it needed,
`turn.py` decides, `run.py` is the thread."""
