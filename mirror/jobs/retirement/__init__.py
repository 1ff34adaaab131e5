"""Looks at the use of topics, and the steps of a retirement, on real clusters."""
