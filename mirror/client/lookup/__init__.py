"""Lookups at the leaders of partitions. Imports only the event loop and `mirror.protocol`."""
