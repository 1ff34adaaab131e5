"""REST: Brooklin-compatible datastream management, our own /v1, health and metrics.

Handlers only translate between JSON and `mirror.control`; what can be asked is decided there.
Read `app.py`, then `services.py` and one file of `endpoints/`.
"""
