"""Long work that somebody asked for: what it is called, how far it is, and what became of it.

Imports coordination's stores and model. Read `operation.py`.
"""
