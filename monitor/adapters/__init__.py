"""Adapters of the monitor: REST of the service, Pinot, and topics."""
