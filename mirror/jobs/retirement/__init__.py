"""Reads the use of topics, and carries out the steps of a retirement, on real clusters."""
