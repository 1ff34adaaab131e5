"""Partition loads: their computation from rates, marks of their quality, and the load provider."""
