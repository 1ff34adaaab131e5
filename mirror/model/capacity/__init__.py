"""Required number of tasks and instances, and the values from which it is derived."""
