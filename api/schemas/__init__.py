"""JSON in and out: pydantic models with `to_…` and `from_…` the values of `mirror.model`."""
