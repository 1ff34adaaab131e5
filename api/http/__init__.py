"""HTTP functions that all resources use.

The package contains errors, headers of changes, limits, event streams and the OpenAPI document. Imports
`api.access` only. Start with `problems.py` and `middleware.py`.
"""
