"""Import of a Brooklin cluster: `verdicts.py` decides about each datastream, and `importer.py` performs the
import."""
