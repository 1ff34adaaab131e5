"""What `/metrics` shows: sums by datastream and task, and of partitions as many as the settings allow.

Names, units and labels of Prometheus metrics are decided here; docs/metrics.md is made of them. Imports what
other rooms of api/ may, and nothing imports it but `app`. Read `collector` first.
"""
