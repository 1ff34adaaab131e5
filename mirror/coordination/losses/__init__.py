"""Definitions that the coordination store has lost.

Lost definitions are kept until an operator restores or forgets them. A missing definition is lost unless
`stores/deletions/record.py` has recorded its deletion. May import `stores`. Start with `store.py`.
"""
