"""Advice on the number of instances, from the required tasks of each hour. Pure; start with `decide.py`."""
