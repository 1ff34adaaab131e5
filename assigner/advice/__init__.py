"""Advice on the number of instances, from the tasks that each hour needs. Pure; start with `decide.py`."""
