"""The composition root: settings, wiring and the command `headrace`.

An installed Headrace is one package: its other packages are in `headrace/wings`, so that their names do not
conflict with others in site-packages. Modules that import `headrace`, and processes that it starts, find them
first.
"""

import os
import sys

_WINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wings")
_VARIABLE = "PYTHONPATH"

if _WINGS not in sys.path:
    sys.path.insert(0, _WINGS)
if _WINGS not in os.environ.get(_VARIABLE, "").split(os.pathsep):  # Spark's Python processes import only pmp
    os.environ[_VARIABLE] = os.pathsep.join(filter(None, [_WINGS, os.environ.get(_VARIABLE)]))
