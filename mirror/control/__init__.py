"""Use cases behind REST and the command line, which both enter here.

Validates a request and writes the desired state; the leader and the instances do the rest. Imports
coordination's stores, ports, model and errors. Read `handlers.py`.
"""
