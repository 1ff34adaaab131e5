"""Datastreams that share tasks: what holds for all of them, and what is done with all or none."""
