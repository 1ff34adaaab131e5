"""Learned capacity of tasks: costs measured on workers, and the capacity that plans derive from them."""
