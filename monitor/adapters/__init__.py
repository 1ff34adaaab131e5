"""The monitor's doors: REST of the service, Pinot, and topics."""
