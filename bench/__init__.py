"""Benchmarks: each module of a subpackage measures one thing and prints figures that docs/ may quote.

A benchmark has a one-line docstring and a `main()`; `make bench ONLY=mirror_drain` runs `mirror/drain.py`.
The `rig` of a subpackage contains the fixtures that its benchmarks share.
"""
