"""The planner's input: loads, capacity, limits and the current placement, validated once. Imports mirror's
model only.

Read `problem.py`; `loads.py` determines the assumed load of partitions without a measurement.
"""
