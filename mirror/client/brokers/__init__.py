"""Brokers of one cluster: addresses, connections, and detection of unresponsive brokers."""
