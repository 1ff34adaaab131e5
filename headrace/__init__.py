"""Composition root: settings, wiring and the command `headrace`.

The only top-level package that may import all others (lazily, in `commands/`, where a dependency is an
extra). Start with `settings.py`, then `wiring.py`.
"""
