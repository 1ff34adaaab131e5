"""Copying over a distance. Read `__main__`, then `link`, `far` and `rates`."""
