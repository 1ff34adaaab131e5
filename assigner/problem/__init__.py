"""What is asked: loads, capacity, limits and the placement in force, validated once. Imports mirror's model
only.

Read `problem.py`; `loads.py` decides which load a partition without a measurement is taken to carry.
"""
