"""A service under steady traffic, and clocks on every partition of it."""
