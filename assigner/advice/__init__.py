"""Sizing advice for a service from the needs of hours. Pure; read `decide.py`."""
