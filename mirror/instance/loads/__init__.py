"""The leader's knowledge of partition loads: observations, the latest reports, and their age."""
