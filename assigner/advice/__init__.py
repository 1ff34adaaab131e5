"""Sizing advice for a service, from the required tasks of each hour. Pure; read `decide.py`."""
