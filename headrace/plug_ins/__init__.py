"""Load providers and placement strategies of other packages, found by entry points.

`entry_points.py` finds and loads them, `load_answers.py` and `plan_answers.py` look at what they answer.
The two contracts are suites of tests for who writes one: docs/plug-ins.md. May import `mirror` only.
"""
