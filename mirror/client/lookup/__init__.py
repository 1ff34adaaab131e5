"""Finds coordinators, and requests offsets from the leaders of partitions."""
