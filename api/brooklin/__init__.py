"""Brooklin's interface in Rest.li format: its paths, requests and responses.

The endpoints call the use cases of `mirror.control`. Start with `protocol.py` for rules that apply to every
request, then `endpoints.py` and `restli.py`. tests/data/brooklin/exchanges.json contains recorded requests of
Brooklin's client and responses of its server.
"""
