"""Conversion of stored objects to JSON-ready values, and tolerant parsing of whatever the store contains.

Imports the layout of znodes and model. Read `definition.py`.
"""
