"""Synchronous interface to Headrace's Kafka client, whose event loop runs on a background thread."""
