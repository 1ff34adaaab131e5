"""Computes how fast error budgets burn: tallies over time ranges, bad shares, rates and rules. Pure."""
