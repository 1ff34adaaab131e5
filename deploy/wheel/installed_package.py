"""The composition root: settings, wiring and the command `headrace`.

An installed Headrace is one package: the other wings lie in `headrace/wings`, so that their names stand in
nobody's way in site-packages. What imports `headrace`, and the processes that it starts, finds them first.
"""

import os
import sys

_WINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wings")
_VARIABLE = "PYTHONPATH"

if _WINGS not in sys.path:
    sys.path.insert(0, _WINGS)
if _WINGS not in os.environ.get(_VARIABLE, "").split(os.pathsep):  # Spark's Python processes import pmp alone
    os.environ[_VARIABLE] = os.pathsep.join(filter(None, [_WINGS, os.environ.get(_VARIABLE)]))
