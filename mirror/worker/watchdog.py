"""Ends a worker process whose loop is stuck. The parent then starts a new process."""

from __future__ import annotations

import faulthandler
from time import monotonic
from typing import Final

_LONGEST_TURN_SECONDS: Final = 60.0
_RENEWAL_SECONDS: Final = 5.0


class Watchdog:
    """Watchdog timer. Call `turn` in every iteration of the loop, and `rest` after the last iteration.

    A process can have only one watchdog. The timer runs in a thread that does not need the interpreter, so an
    endless loop does not stop it. When it expires, it writes the stack to standard error and ends the
    process.
    """

    def __init__(self, longest_turn_seconds: float = _LONGEST_TURN_SECONDS) -> None:
        self._longest = longest_turn_seconds
        self._renew_at = 0.0

    def turn(self) -> None:
        """Reset the timer."""
        now = monotonic()
        if now >= self._renew_at:
            self._renew_at = now + min(_RENEWAL_SECONDS, self._longest / 2)
            faulthandler.dump_traceback_later(self._longest, exit=True)

    def rest(self) -> None:
        """Stop the timer."""
        faulthandler.cancel_dump_traceback_later()
