"""Connections shared by many lanes: fetches from a source, produces to a destination."""
