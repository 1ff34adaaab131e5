"""Immutable values of the domain, such as datastreams and plans.

Imports only the standard library and `mirror.errors`: no clock, no logging, no client library. Start with
`topics.py`, then `datastreams/datastream.py` and `plan.py`.
"""
