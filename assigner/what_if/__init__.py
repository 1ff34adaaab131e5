"""Planning for the commands, from documents and recorded days. Imports the planner.

`document.py` parses the input, `report.py` formats the result, `hosts.py` places tasks on hosts, `replay.py`
plans every hour of a recorded day, `ahead.py` computes the tasks of the next hours, `trace.py` exports
recorded loads. The service itself does not use this package.
"""
