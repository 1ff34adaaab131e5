"""Audit engine: compares a source partition with its copy, record by record, in bounded memory.

Imports the Kafka client, the protocol and stored ledgers, but no code that copies. Start with `matcher.py`.
"""
