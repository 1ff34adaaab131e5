"""/v1/monitor: the active monitor, the permission of monitors to act, and their rebalances."""
