"""The lanes of an engine: their registry, unsaved progress, and the actions that their lifecycle decides."""
