"""One module per resource; short handlers that call `mirror.control` or read a status."""
