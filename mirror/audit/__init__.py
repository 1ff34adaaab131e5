"""The audit engine: compares a partition with its copy, record by record, in bounded memory.

Imports the wire client, the protocol and stored ledgers, but nothing that copies. Start with `matcher.py`.
"""
