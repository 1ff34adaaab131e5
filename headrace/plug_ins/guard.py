"""Calls plug-ins with a time limit, and converts unusual exceptions.

A plug-in can neither end a thread or the process, nor block the service for long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from mirror.bulkheads import settle
from mirror.errors import HeadraceError, TimedOut
from mirror.model.reasons import legible, named

_T = TypeVar("_T")
PATIENCE_SECONDS: Final = 30.0
"""Maximum seconds that the leader waits for a plan, or for the creation of a strategy."""


def called(subject: str, call: Callable[[], _T], kind: type[HeadraceError]) -> _T:
    """Call a plug-in and return its result. Its exceptions are raised unchanged, unless they would end the
    process.

    Exceptions that would end a thread or the process, such as SystemExit, are raised as `kind`, with
    `subject` in the message.
    """
    try:
        return call()
    except BaseException as error:
        if isinstance(error, Exception):
            raise
        raise kind(f"{subject} raised {legible(named(error))}") from error


class PatientCalls:
    """Calls a plug-in and waits for it only for a limited time. Thread-safe.

    A call that takes longer than `seconds` continues in the background. Further calls fail until it returns.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._late: Future[Any] | None = None

    def ask(self, subject: str, call: Callable[[], _T]) -> _T:
        """Return the result of calling a plug-in. Raises TimedOut, and the exceptions of the call. `subject`:
        name of the plug-in for the message. `call` must only raise subclasses of Exception."""
        if self._late is not None and not self._late.done():
            raise TimedOut(f"{subject} has not returned from an earlier call yet")
        answer: Future[_T] = Future()
        threading.Thread(target=settle, args=(answer, call), name="plug-in", daemon=True).start()
        done, _ = wait([answer], self._seconds)
        if not done:
            self._late = answer
            raise TimedOut(f"{subject} has not returned within {self._seconds:g} s")
        return answer.result()
