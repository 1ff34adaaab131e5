"""Evaluates several objectives per datastream, each over its own window and with its own error budget."""
