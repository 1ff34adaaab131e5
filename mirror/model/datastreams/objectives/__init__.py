"""Objectives of a datastream, and their text form in the metadata."""
