"""The Spark job: samples of every cluster into the one topic that Pinot ingests."""
