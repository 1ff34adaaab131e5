"""Brokers of one cluster: addresses, connections, and detection of silent brokers."""
