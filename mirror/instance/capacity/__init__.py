"""Learning of task capacity: costs measured on workers, and the capacity that plans derive from them."""
