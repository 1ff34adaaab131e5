"""Diagnoses why the records of a datastream are late, before the monitor acts. Pure.

Start with `evidence.py`, then read the rules in `judge.py`.
"""
