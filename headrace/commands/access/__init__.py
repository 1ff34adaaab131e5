"""Commands that manage access to the service. Start with `token.py`."""
