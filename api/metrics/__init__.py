"""Metrics of `/metrics`: sums by datastream and task, and a limited number of series by partition.

Names, units and labels of Prometheus metrics are defined here; docs/metrics.md is generated from them. Only
`app` imports this package. Start with `collector`.
"""
