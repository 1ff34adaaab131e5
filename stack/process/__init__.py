"""Processes that end with the process that started them. Imports `errors` only.

`managed_process.py` starts a command under `reaper.py`, a separate program; `records.py` stores the process
of each server; `parallel.py` runs an action on several servers at the same time.
"""
