"""Partition loads: computation from rates, quality marks, and the load provider."""
