"""Brokers of one cluster: their addresses, the connections to them, and a watch over silent ones."""
