"""How Pinot gets and feeds its tables: `deploy.py` compares and applies definitions through
`controller.py`, `java_kafka.py` spells a cluster's settings for its consumers, `ingestion.py` reads how
far they are. Imports `tables.py`, `schemas.py` and what is below them.
"""
