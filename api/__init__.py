"""REST interface: Brooklin-compatible datastream management, the API under /v1, health and metrics.

Handlers only translate between JSON and `mirror.control`, which makes the decisions. Read `app.py` first,
then `services.py` and one module of `resources/`.
"""
