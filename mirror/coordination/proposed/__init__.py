"""Plans that are computed for review, and applied unchanged or not at all.

Imports coordination's stores and model. Read `proposal.py`.
"""
