"""Plans that are computed for review, and can only be applied unchanged.

Imports coordination's stores and model. Read `proposal.py`.
"""
