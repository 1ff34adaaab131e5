"""The Partition Metrics Provider: samples of many clusters in, the load of every partition out.

Imports mirror and pinot; pyspark only where the job runs. Read `samples/` (the format), `job/`
(samples to Avro), then `loads/` (what the leader plans with); `sampler.py` stands in for Cruise Control.
"""
