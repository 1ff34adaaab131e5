"""Measurements of the monitor."""
