"""A file for each resource; handlers of a few lines that call `mirror.control` or read a status."""
