"""Machine code of the modules that every batch passes through, made by `mypyc` of the very same sources.

It may import what names those modules, `headrace.process.machine_code`, which uses what is made here. Read
`builds.py` first.
"""
