"""Data for responses about the whole service, which any instance can return.

The data are the shared state, also while the coordination store is unavailable, and the state of the other
instances. May import `api.services`, `api.http` and mirror. Read `reads.py` and `questions.py` first.
"""
