"""/v1/monitor: which monitor judges, whether monitors may act, and what they did."""
