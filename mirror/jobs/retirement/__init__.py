"""Determines from the clusters which topics are in use, and performs the steps of a retirement."""
