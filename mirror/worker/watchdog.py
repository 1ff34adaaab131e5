"""Ends a worker process whose loop does not turn any more; the process that started it starts another one."""

from __future__ import annotations

import faulthandler
from time import monotonic
from typing import Final

_LONGEST_TURN_SECONDS: Final = 60.0
_RENEWAL_SECONDS: Final = 5.0


class Watchdog:
    """`turn` in every round of the loop, `rest` when it is over. One a process.

    It lives in a thread that needs no interpreter, so an endless loop does not stop it. Where the process
    stood is written to its standard error.
    """

    def __init__(self, longest_turn_seconds: float = _LONGEST_TURN_SECONDS) -> None:
        self._longest = longest_turn_seconds
        self._renew_at = 0.0

    def turn(self) -> None:
        """The loop turns."""
        now = monotonic()
        if now >= self._renew_at:
            self._renew_at = now + min(_RENEWAL_SECONDS, self._longest / 2)
            faulthandler.dump_traceback_later(self._longest, exit=True)

    def rest(self) -> None:
        """Nothing is watched any more."""
        faulthandler.cancel_dump_traceback_later()
