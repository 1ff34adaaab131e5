"""`make demo`: the whole control loop on real servers in a few minutes, with a report.

All figures are measured on the servers that the demonstration starts. The demonstration fails if a claim does
not hold. Start with `scenario.py` (setup and loads), then `story.py` (sequence of events).
"""
