"""JSON bodies and responses: pydantic models that convert to and from the values of `mirror.model`."""
