"""Commands: one module for each command or command group. The module of a group exports a typer app, `app`.

The command functions import other packages, so that `headrace --help` is fast, and an installation without
extras works.
"""
