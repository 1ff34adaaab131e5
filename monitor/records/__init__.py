"""What is kept of incidents, beyond the life of the monitor: one object each, with a timeline.

Decisions are pure, the time is passed in. May import the modules of `monitor/`, which import nothing of it.
Read `record.py`, `book.py`, then `keeper.py`.
"""
