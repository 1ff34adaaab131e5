"""Metrics of `/metrics`: sums for each datastream and task, and a limited number of series for partitions.

Names, units and labels of Prometheus metrics are defined here; docs/metrics.md is generated from them. Only
`app` imports this package. Start with `collector`.
"""
