"""State of the service in the coordination store, one module for each kind of node."""
