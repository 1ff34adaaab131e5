"""Commands that require the analytics extras: plans, metrics, the monitor and Pinot."""
