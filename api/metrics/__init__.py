"""Metrics of `/metrics`: sums by datastream and task, and a configurable number of series by partition.

Names, units and labels of Prometheus metrics are defined here; docs/metrics.md is generated from them. Only
`app` imports this package. Read `collector` first.
"""
