"""The lanes of an engine: their registry, and their unsaved progress."""
