"""Calls of plug-ins: none ends a thread or a process of the service, and none holds it up for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from mirror.errors import HeadraceError, TimedOut, legible, named

_T = TypeVar("_T")
PATIENCE_SECONDS: Final = 30.0
"""How long the leader waits for one plan, or for a strategy to be made."""


def called(what: str, call: Callable[[], _T], kind: type[HeadraceError]) -> _T:
    """What the call answers. Raises what it raises; but `kind`, in which `what` is named, for what would end
    a thread or the process, such as SystemExit."""
    try:
        return call()
    except Exception:
        raise
    except BaseException as error:
        raise kind(f"{what} raises {legible(named(error))}") from error


class PatientCalls:
    """Waits for each answer no longer than `seconds`. A call that takes longer goes on by itself, and until
    it has ended no other one is made. For any thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._late: Future[Any] | None = None

    def ask(self, what: str, call: Callable[[], _T]) -> _T:
        """What the call answers. Raises what it raises, and TimedOut that names `what`. The call itself must
        raise nothing that is no Exception."""
        if self._late is not None and not self._late.done():
            raise TimedOut(f"{what} has not answered an earlier question yet")
        answer: Future[_T] = Future()
        threading.Thread(target=_answer, args=(call, answer), name="plug-in", daemon=True).start()
        done, _ = wait([answer], self._seconds)
        if not done:
            self._late = answer
            raise TimedOut(f"{what} has not answered for {self._seconds:g} s")
        return answer.result()


def _answer(call: Callable[[], _T], answer: Future[_T]) -> None:
    try:
        found = call()
    except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
        answer.set_exception(error)
    else:
        answer.set_result(found)
