"""Commands that show the state of a service over REST.

`status.py` is the overview; `lag.py`, `lanes.py` and `instances.py` show one aspect each; `doctor.py`
diagnoses problems; `state.py` moves the state of a stopped service; `token.py` edits the
file of tokens.
"""
