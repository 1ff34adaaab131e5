"""The commands: one module per command or command group. The module of a group exports a typer app, `app`.

Modules here import other packages inside the command functions, so that `headrace --help` is fast and
an installation without extras works.
"""
