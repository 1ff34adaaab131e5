"""Compares two fleets under the same load: one balanced by partition count, one by measured load.

`__main__.py` is the benchmark. `rates.py` defines the traffic, `site.py` runs the servers and `fleets.py` the
two services, `course.py` writes the load and records the plans, `measurements.py` queries Pinot,
`deviation.py` computes the imbalance, `records.py` stores the results, and `report.py` and `pictures.py`
present them.
"""
