"""Membership of this instance in its coordination session, and the lease of its workers."""
