"""Parts of HTTP that every resource uses: errors, headers of changes, limits, event streams, the OpenAPI
document. Imports `api.access` only. Read `problems.py` and `middleware.py` first.
"""
