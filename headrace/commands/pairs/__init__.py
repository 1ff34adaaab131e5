"""Subcommands of `headrace dr` for pairs of clusters. `session.py` contains the functions that the commands
share."""
