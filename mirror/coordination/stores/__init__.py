"""Stores of the service's state in the coordination store, one module for each kind of node."""
