"""How long the tests and the demonstration take on a fresh clone."""
