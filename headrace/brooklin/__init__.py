"""Imports the datastreams of a Brooklin cluster. Start with `verdicts.py`, then read `importer.py`."""
