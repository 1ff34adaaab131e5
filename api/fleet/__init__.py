"""Data for responses about the whole service, which any instance can return.

The data are the shared state, even while the coordination store is down, and the state of the other
instances. May import `api.services`, `api.http` and mirror. Start with `reads.py` and `questions.py`.
"""
