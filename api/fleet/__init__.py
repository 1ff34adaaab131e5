"""Reads the state of the whole service, so that any instance can respond to a request about it.

The data are the shared state, also while the coordination store is unavailable, and the state of the other
instances. May import `api.services`, `api.http` and mirror. Read `reads.py` and `questions.py` first.
"""
