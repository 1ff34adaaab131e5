"""Commands that need the analytics extras: plans, metrics, the monitor and Pinot."""
