"""Composition root: the settings, the wiring of processes, and the command `headrace`.

`headrace` is the only top-level package that may import all others. Modules in `commands/` import optional
dependencies inside functions. Start with `settings.py`, then `wiring.py`.
"""
