"""Use cases of REST and the command line.

A use case validates a request and writes the desired state; the leader and the instances then act on this
state. Imports coordination's stores, ports, model and errors. Read `handlers.py`.
"""
