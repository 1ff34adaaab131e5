"""Tables of measurements in Apache Pinot: their definitions, their deployment, every question asked of them.

Imports mirror's model, ports, options and errors; `client.py` is the only user of pinotdb.
Read `tables.py` (the one source of names), then `queries.py`.
"""
