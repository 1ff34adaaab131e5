"""Converts stored objects to and from JSON. Parsing tolerates unknown fields.

Imports the layout of znodes and model. Start with `definition.py`.
"""
