"""Figures: each module here measures one thing and prints what docs/ may quote.

A module has a one-line docstring and `main()`. Run one with `make bench ONLY=name`.
"""
