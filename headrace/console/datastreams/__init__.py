"""Datastreams on the command line.

`fields.py` defines their options, `manifests.py` reads definition files, `difference.py` computes and applies
changes, `changes.py` prints them, and `conditions.py` waits for a condition.
"""
