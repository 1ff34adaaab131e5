"""Load providers and placement strategies of other packages, found by entry points.

`entry_points.py` finds and loads them, `checked.py` looks at what a provider answers while the service runs.
The two contracts are suites of tests for who writes one: docs/plug-ins.md. May import `mirror` only.
"""
