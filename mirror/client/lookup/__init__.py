"""Finds coordinators, and offsets at partition leaders. Imports only the event loop and `mirror.protocol`."""
