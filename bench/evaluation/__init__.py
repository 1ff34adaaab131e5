"""Two fleets mirror the same load: one places by count, the other by the loads that Pinot has.

`__main__.py` is the measurement. `rates.py` says what is written at which moment, `site.py` runs the servers
and `fleets.py` the two services on them, `course.py` writes the load and watches the plans, `measurements.py`
asks Pinot what was copied, `deviation.py` judges it, `records.py` keeps it, `report.py` and `pictures.py`
show it.
"""
