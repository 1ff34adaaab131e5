"""Learned capacity of tasks: copying costs that workers measure, and the capacity derived from them."""
