"""Finite jobs on the clients of an engine: copy, verify, translate."""
