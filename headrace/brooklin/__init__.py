"""Import of a Brooklin cluster: `verdicts.py` decides for each datastream, `importer.py` carries it out."""
