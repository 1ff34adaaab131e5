"""The Spark job: merges the samples of all clusters into the topic that Pinot ingests."""
