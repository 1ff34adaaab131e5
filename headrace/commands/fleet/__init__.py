"""What a service does at the moment, over REST: `status.py` shows all of it on one page, `lag.py`, `lanes.py`
and `instances.py` show one side of it, `doctor.py` looks for what is wrong with it.
"""
