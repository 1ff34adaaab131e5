"""Datastreams and groups of datastreams on /v1. Read `datastreams.py` first, then `datastream_models.py`."""
