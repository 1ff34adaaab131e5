"""Processes that end with the process that started them. Imports `errors` only.

`managed_process.py` starts one under `reaper.py`, a program of its own; `records.py` remembers which process
is which server; `parallel.py` does one thing to several at the same time.
"""
