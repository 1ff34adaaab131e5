"""Use cases of REST and the command line.

They validate a request and write the desired state. The leader and the instances then act on it. Imports
coordination's stores, ports, model and errors. Read `handlers.py`.
"""
