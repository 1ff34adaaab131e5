"""One file for each command group; each exports a typer app called `app`.

Modules here import other wings inside the command functions, so that `headrace --help` is quick
and a mirror-only install works.
"""
