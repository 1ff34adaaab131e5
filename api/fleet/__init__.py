"""Responses that any instance gives for the whole service: the shared state, even while the store is down,
and the state of the other instances. May import `api.services`, `api.http` and mirror. Read `reads.py` and
`questions.py`.
"""
