"""Channels: connections shared by many lanes, to fetch from a source or produce to a destination."""
