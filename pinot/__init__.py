"""Defines, deploys and queries the tables of measurements in Apache Pinot.

Imports mirror's model, ports, options and errors; only `client.py` uses pinotdb. Start with `tables.py`,
which defines all names, then `queries.py`.
"""
