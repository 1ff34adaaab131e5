"""Synchronises the positions of consumer groups from the source of a datastream to its destination.

Start with `decision.py`, which contains the rules, then read `follower.py`, which applies them. Imports
translations, client, protocol and model.
"""
