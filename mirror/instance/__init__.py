"""Control process of a running instance: follows plans, leads when elected, and supervises its workers.

Imports control, coordination, ports, model and errors. Read `service.py`, then `follower.py`.
"""
