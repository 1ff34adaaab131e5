"""Measurements of the servers that tests and demo start."""
