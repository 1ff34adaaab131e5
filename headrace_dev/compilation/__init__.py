"""Compiles the data plane with `mypyc`.

Of the other packages, this package imports only `headrace.process.machine_code`, which lists the modules to
compile and uses the build. Read `builds.py` first.
"""
