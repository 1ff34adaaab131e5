"""The control process of one running service: follows plans, leads when elected, minds its workers.

Imports control, coordination, ports, model and errors. Read `service.py`, then `follower.py`.
"""
