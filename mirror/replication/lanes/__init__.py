"""The lanes of an engine: their registry, their unsaved progress, and the actions of their lifecycle."""
