"""Plans that are computed for review. A reviewed plan can only be applied unchanged.

Imports coordination's stores and model. Read `proposal.py`.
"""
