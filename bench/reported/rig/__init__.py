"""Register of the situations, and its table."""
