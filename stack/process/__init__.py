"""Processes that end with their parent process. Imports `errors` only.

`managed_process.py` starts a command under `reaper.py`, a separate program; `records.py` stores the process
of each server; `parallel.py` runs an action on several servers at the same time.
"""
