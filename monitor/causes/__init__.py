"""Why a datastream is late, before anything is done about it: evidence in, a diagnosis out. Pure.

Read `evidence.py`, then `judge.py`, where the rules are.
"""
