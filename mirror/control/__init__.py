"""Operations that REST and the command line offer.

An operation validates a request and writes the desired state. The leader and the instances then act on this
state. Imports the stores of coordination, ports, model and errors. Start with `handlers.py`.
"""
