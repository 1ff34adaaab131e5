"""Addresses of services, and credentials with which commands call them. Start with `quick.py`.

Modules here do not import pydantic or the settings of another package, because these imports take ten times
as long as most calls.
"""
