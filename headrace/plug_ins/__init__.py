"""Load providers and placement strategies that other packages provide through entry points.

`entry_points.py` finds and loads the plug-ins; `load_answers.py` and `plan_answers.py` validate their
results. The two contracts are test suites for authors of plug-ins (see docs/plug-ins.md). May import `mirror`
only.
"""
