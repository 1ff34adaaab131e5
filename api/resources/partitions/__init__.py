"""Lag, gaps, loads, progress, histories and offset translation of a datastream's partitions on /v1."""
