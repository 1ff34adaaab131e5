"""The Partition Metrics Provider: samples of many clusters in, the load of every partition out.

Imports mirror and pinot; pyspark only where the job runs. Read `samples.py` (the format), `job.py`
(samples to Avro), then `provider.py` (what the leader plans with); `sampler.py` stands in for Cruise Control.
"""
