"""Synchronous use of our Kafka client: one event loop on a background thread."""
