"""Traffic, mirrors and the consumer groups that fail over from one cluster to the other."""
