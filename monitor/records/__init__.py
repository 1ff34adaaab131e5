"""Records of incidents, each with a timeline, which are stored durably.

Decisions are pure: callers pass the time as an argument. May import the modules of `monitor/`, which must not
import this package. Read `record.py`, `book.py`, then `keeper.py`.
"""
