"""Connects commands and services to the Kafka clusters in the settings.

`directory.py` resolves references, `adhoc.py` opens connections for one command, `questions.py` queries
clusters for REST requests, `own_topics.py` lists the internal topics of Headrace. `alias_collisions.py` and
`plain_credentials.py` check the settings.
"""
