"""Names of the plug-ins that a running instance can use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from headrace.plug_ins.entry_points import provider_names, strategy_names

_LOOK_AGAIN_SECONDS: Final = 60.0


class PlugInNames:
    """Cached names of plug-ins. Thread-safe.

    The cache is refreshed at most once a minute, because a search takes about 20 ms of CPU time. Packages
    that are installed while the instance runs are included.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._found: tuple[float, tuple[str, ...], tuple[str, ...]] = (-math.inf, (), ())

    @property
    def strategies(self) -> tuple[str, ...]:
        """Names of placement strategies, including built-in strategies."""
        return self._refresh()[1]

    @property
    def load_providers(self) -> tuple[str, ...]:
        """Names of load providers, including built-in providers."""
        return self._refresh()[2]

    def _refresh(self) -> tuple[float, tuple[str, ...], tuple[str, ...]]:
        now, found = self._monotonic(), self._found
        if now - found[0] >= _LOOK_AGAIN_SECONDS:
            found = self._found = now, strategy_names(), provider_names()
        return found
