"""The composition root: settings, wiring and the command `headrace`.

The only wing that may import all others (lazily, in `commands/`, where a dependency is an extra).
Read `settings.py`, then `wiring.py`.
"""
