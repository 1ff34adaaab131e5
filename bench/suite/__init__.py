"""Duration of the tests and the demonstration on a fresh clone."""
