"""Names of the plug-ins that a running instance has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from headrace.plug_ins.entry_points import provider_names, strategy_names

_LOOK_AGAIN_SECONDS: Final = 60.0


class PlugInNames:
    """Looks for them at most once a minute: that takes some 20 ms of a processor, and health is asked all the
    time. A package that is installed while the instance runs counts. Safe from any thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._found: tuple[float, tuple[str, ...], tuple[str, ...]] = (-math.inf, (), ())

    @property
    def strategies(self) -> tuple[str, ...]:
        """Placement strategies, with Headrace's own."""
        return self._look()[1]

    @property
    def load_providers(self) -> tuple[str, ...]:
        """Likewise."""
        return self._look()[2]

    def _look(self) -> tuple[float, tuple[str, ...], tuple[str, ...]]:
        now, found = self._monotonic(), self._found
        if now - found[0] >= _LOOK_AGAIN_SECONDS:
            found = self._found = now, strategy_names(), provider_names()
        return found
