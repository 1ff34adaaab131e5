"""Conversion of stored objects to JSON-ready values, and tolerant parsing of stored values.

Imports the layout of znodes and model. Read `definition.py`.
"""
