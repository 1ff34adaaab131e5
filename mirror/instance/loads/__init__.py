"""The leader's knowledge of loads: observations, the latest reports, and their age."""
