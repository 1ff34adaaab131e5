"""Number of tasks and instances needed, as values that any instance can show."""
