"""Durable records of incidents, each with a timeline.

Decisions are pure; the time is passed in. May import the modules of `monitor/`, which must not import this
package. Read `record.py`, `book.py`, then `keeper.py`.
"""
