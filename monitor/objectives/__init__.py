"""Evaluation of several objectives per datastream, each over its own window and against its error budget."""
