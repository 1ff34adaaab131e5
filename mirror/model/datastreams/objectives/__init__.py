"""Objectives of a datastream: values, and their text form in the metadata."""
