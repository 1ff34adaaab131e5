"""The use cases behind REST and the command line: two doors to this room.

Validates a request and writes the desired state; the leader and the instances do the rest.
Imports coordination's stores, ports, model and errors. Read `handlers.py`.
"""
