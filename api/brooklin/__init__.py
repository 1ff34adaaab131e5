"""Brooklin's interface in Rest.li format: request and response handling around the use cases.

Imports mirror's use cases and `api.services`; the paths are in `api/endpoints/brooklin.py` and
`api/endpoints/diagnostics.py`. Read `protocol.py` for rules that apply to every request, and `definitions.py`
for datastreams. tests/data/brooklin/exchanges.json contains recorded requests of Brooklin's client and
responses of its server.
"""
