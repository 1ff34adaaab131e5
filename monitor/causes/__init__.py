"""Diagnosis of late datastreams, made before any action is taken. Pure.

Read `evidence.py`, then `judge.py`, where the rules are.
"""
