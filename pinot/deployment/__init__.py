"""Creates and updates Pinot's tables, and checks their ingestion.

`deploy.py` compares and applies definitions through `controller.py`. `java_kafka.py` converts a cluster's
settings for Pinot's consumers. `ingestion.py` returns the offsets that Pinot has consumed. Imports
`tables.py`, `schemas.py` and the modules below them.
"""
