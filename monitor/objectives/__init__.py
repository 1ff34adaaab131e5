"""Evaluates several objectives of a datastream, each with its own window and error budget."""
