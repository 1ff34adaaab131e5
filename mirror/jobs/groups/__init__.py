"""Synchronises the positions of consumer groups from the source of a datastream to its destination.

Read `decision.py`, which contains the rules, then `follower.py`, which applies the rules. Imports
translations, client, protocol and model.
"""
