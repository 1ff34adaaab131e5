"""Brooklin's interface in Rest.li format: its paths, requests and responses.

The use cases are those of `mirror.control`. Read `protocol.py` for rules that apply to every request, then
`endpoints.py` and `restli.py`. tests/data/brooklin/exchanges.json contains recorded requests of Brooklin's
client and responses of its server.
"""
