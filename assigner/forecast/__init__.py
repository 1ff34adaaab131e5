"""What load comes in the next hours, by what came in the past ones. Pure arithmetic.

`rules.py` says what an hour carries, `seasonal.py` continues a series of hourly values with an interval and a
grade, and `outlook.py` does so for the sum of all partitions and says what each of them then carries.
"""
