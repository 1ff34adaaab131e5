"""Kafka clusters as the settings describe them: `directory.py` resolves references, `access.py` says how
the engine connects, `adhoc.py` opens an engine or an administrator for one command, `own_topics.py`
names our own topics.
"""
