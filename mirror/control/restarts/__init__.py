"""Checks whether a datastream may copy everything again. Imports the model and the shared state. Read
`clusters.py`.
"""
