"""Measurements and reports of a worker's lanes."""
