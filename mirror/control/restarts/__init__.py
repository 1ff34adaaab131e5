"""Checks whether a datastream may be restarted from the beginning. Imports the model and the shared state.
Read `clusters.py`.
"""
