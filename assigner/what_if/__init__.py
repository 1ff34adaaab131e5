"""The commands' side of planning: documents and recorded days in, plans for people out. Imports the
planner.

`document.py` reads the question, `report.py` writes the answer, `hosts.py` places tasks on hosts,
`replay.py` plans every hour of a recorded day, `ahead.py` sizes the hours that come, `trace.py` writes a
recorded past for others. The service itself needs none of this.
"""
