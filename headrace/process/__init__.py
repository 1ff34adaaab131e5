"""Setup of every process: signals, logs, cores, garbage collection, REST and compiled modules.

Of the other packages in `headrace`, imports only `headrace.console`.
"""
