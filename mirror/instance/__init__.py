"""Control process of an instance: follows plans, leads if elected, and supervises its workers.

Imports control, coordination, ports, model and errors. Read `service.py`, then `follower.py`.
"""
