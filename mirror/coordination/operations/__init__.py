"""Long-running operations requested by users: identity, progress and outcome.

Imports coordination's stores and model. Read `operation.py`.
"""
