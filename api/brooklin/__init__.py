"""Brooklin's interface in the forms of Rest.li: what is decided about a call before and after the use cases.

Imports mirror's use cases and `api.services`; `api/endpoints/brooklin.py` and `api/endpoints/diagnostics.py`
have the paths. Read `protocol.py` for what holds for every call, `definitions.py` for datastreams.
tests/data/brooklin/exchanges.json has what Brooklin's own client and server said to each other.
"""
