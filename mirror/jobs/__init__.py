"""Work with an end, on the clients of an engine: copy, verify, translate."""
