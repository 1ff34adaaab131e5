"""Long-running operations that users request: identity, progress and result.

Imports coordination's stores and model. Read `operation.py`.
"""
