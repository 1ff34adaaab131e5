"""The commands of `headrace-dev`: one module per command or command group.

Modules here import other packages inside the command functions, so that `headrace-dev --help` is fast.
"""
