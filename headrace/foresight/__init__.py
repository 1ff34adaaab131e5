"""The leader's forecast and advice: `history.py` keeps the past, `turn.py` decides, `run.py` is the
thread."""
