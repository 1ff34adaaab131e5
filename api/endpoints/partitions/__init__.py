"""Lag, gaps, loads, ledgers and offset translation of a datastream's partitions."""
