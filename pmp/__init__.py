"""The Partition Metrics Provider: reads samples of many clusters and provides the load of each partition.

Imports mirror and pinot; only the job imports pyspark. Read `samples/` (the format), `job/` (samples to
Avro), then `loads/` (loads for the leader's plans). `sampler.py` measures clusters without Cruise Control.
"""
