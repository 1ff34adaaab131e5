"""How many tasks and instances are needed, as values that any instance can show."""
