"""Compilation of the data plane with `mypyc`.

This package imports only `headrace.process.machine_code`, which lists the modules to compile and uses the
build. Read `builds.py` first.
"""
