"""Forecasts the load of the next hours from past hours. Pure arithmetic.

`rules.py` predicts one hour. `seasonal.py` forecasts a series of hourly values, with an interval and a grade.
`outlook.py` forecasts the sum of all partitions and distributes it over the partitions.
"""
