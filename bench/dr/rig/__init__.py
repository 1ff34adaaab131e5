"""Clusters with an authorizer, and producers that are denied Write."""
