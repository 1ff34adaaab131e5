"""Subcommands of `headrace dr` for pairs of clusters. `pair_console.py` contains the functions that the
commands share.
"""
