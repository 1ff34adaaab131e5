"""Measurements of tables and queries of stored metrics."""
