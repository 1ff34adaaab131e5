"""Lanes of an engine: registry, delivery of batches, and unsaved progress."""
