"""Connections that many lanes share: fetches from a source, produces to a destination."""
