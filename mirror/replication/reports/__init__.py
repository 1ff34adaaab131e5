"""Measurements of a worker's lanes, and reports about them."""
