"""Compilation of the data plane with `mypyc`.

Imports only `headrace.process.machine_code`, which lists the modules and uses the build. Read `builds.py`
first.
"""
