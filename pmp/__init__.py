"""The Partition Metrics Provider: determines the load of each partition from samples of many clusters.

Imports mirror and pinot; only the job imports pyspark. Start with `samples/` (the format), then `job/`
(samples to Avro) and `loads/` (loads for the leader's plans). `sampler.py` measures clusters without Cruise
Control.
"""
