"""Setup of every Headrace process: signals, logs, cores, garbage collection, REST and compiled modules. Of
the other packages in `headrace`, this package imports `settings.py` (for types), `console` and `plug_ins`.
"""
