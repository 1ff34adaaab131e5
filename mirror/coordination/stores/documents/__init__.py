"""How what is stored is written: as JSON-ready values, and read back whatever somebody has made of them.

Imports the layout of znodes and model. Read `definition.py`.
"""
