"""Costs of the bytes of the protocol."""
