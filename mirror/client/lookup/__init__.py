"""Lookups at the leaders of partitions. Imports the event loop and `mirror.protocol`."""
