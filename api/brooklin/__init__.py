"""Brooklin's interface in Rest.li format: its paths, and request and response handling around the use cases.

Imports mirror's use cases and `api.fleet`. Read `protocol.py` for rules that apply to every request, then
`endpoints.py` and `restli.py`. tests/data/brooklin/exchanges.json contains recorded requests of Brooklin's
client and responses of its server.
"""
