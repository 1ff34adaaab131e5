"""Benchmarks of switch-overs between the clusters of a pair."""
