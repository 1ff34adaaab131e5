"""Several objectives per datastream, each evaluated over its own window and by its error budget."""
