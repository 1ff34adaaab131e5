"""Frozen values and their invariants: the nouns of DESIGN section 2.

Imports the standard library and `mirror.errors` only; no clock, no logging, no client library.
Start with `topics.py`, then `datastream.py` and `plan.py`.
"""
