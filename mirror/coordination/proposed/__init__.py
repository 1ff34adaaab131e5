"""Plans that were computed for somebody to look at, and are applied as they are or not at all.

Imports coordination's stores and model. Read `proposal.py`.
"""
