"""Retirement of unused topics: the thread that records the use of topics, and the construction of the
operations."""
