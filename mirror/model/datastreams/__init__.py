"""Datastreams: definitions, copy policies, status and pauses."""
