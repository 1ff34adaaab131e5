"""Benchmarks of copying between distant clusters. Read `__main__`, then `link`, `far` and `rates`."""
