"""Values for the number of tasks and instances needed, which any instance can show."""
