"""How fast error budgets are used up: tallies over pieces of the past, shares, rates, rules. Pure."""
