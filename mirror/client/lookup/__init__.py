"""Finds coordinators, and requests offsets. Imports only the event loop and `mirror.protocol`."""
