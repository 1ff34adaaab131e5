"""Figures: each module of a room measures one thing and prints what docs/ may quote.

Such a module has a one-line docstring and `main()`; `make bench ONLY=mirror_drain` runs `mirror/drain.py`.
What several measurements of a room run on lies in its `rig`.
"""
