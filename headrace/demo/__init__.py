"""`make demo`: the whole loop on real servers in a few minutes, ending in a report.

Everything it shows is measured on the servers that it starts; a claim that does not hold makes it
fail. Read `scenario.py` (what happens), then `story.py` (in which order).
"""
