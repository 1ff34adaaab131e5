"""Datastreams: definitions, policies, life cycle and pauses."""
