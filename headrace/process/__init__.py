"""Setup of every Headrace process: signals, logs, cores, garbage collection, REST and compiled modules.
Imports only `headrace.console` of the other packages in `headrace`.
"""
