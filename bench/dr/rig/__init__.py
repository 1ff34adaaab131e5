"""Clusters with an authorizer, and producers that lose the permission Write."""
