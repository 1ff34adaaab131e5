"""The import of a Brooklin cluster: `verdicts.py` decides what becomes of each datastream, `importer.py`
carries it out.
"""
