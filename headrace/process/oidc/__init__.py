"""Authenticates callers with tokens of an OpenID Connect provider.

This package is imported only if a provider is configured.
"""
