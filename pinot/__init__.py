"""Tables of measurements in Apache Pinot: their definitions, their deployment, and all queries.

Imports mirror's model, ports, options and errors; only `client.py` uses pinotdb. Read `tables.py` (the single
source of names), then `queries.py`.
"""
