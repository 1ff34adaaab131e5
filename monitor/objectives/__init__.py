"""Several objectives of a datastream: each is judged now, over its own window, and by its error budget."""
