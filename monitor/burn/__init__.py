"""Burn rates of error budgets: tallies over time ranges, shares, rates and rules. Pure."""
