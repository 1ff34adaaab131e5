"""Measurements of a whole service."""
