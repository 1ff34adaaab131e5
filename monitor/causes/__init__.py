"""Diagnosis of late datastreams, made before any action is taken. Pure.

Start with `evidence.py`, then read the rules in `judge.py`.
"""
