"""Limits on the number of nodes per group, so that no group evicts the nodes of another. Start with
`shares.py`."""
