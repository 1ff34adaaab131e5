"""One event loop on a thread of its own, for other threads that ask and wait for the answer."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from copy import copy
from functools import cache, partial
from typing import Any, Final, TypeVar

from mirror.adapters.system_clock import SystemClock
from mirror.client.event_loop import Loop, Promise
from mirror.errors import HeadraceError, TimedOut

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
Job = Callable[[Loop], object]
_LONGEST_WAIT: Final = 3600.0
"""Of a round of the loop in which nothing happens; a job ends it."""


class LoopThread:
    """Thread-safe. The thread starts with the first job and never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._loop: Loop | None = None

    def post(self, job: Job) -> None:
        """Do something on the loop's thread soon. What it raises is logged."""
        with self._lock:
            if self._loop is None:
                self._loop = Loop(SystemClock())
                threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True).start()
            self._jobs.append(job)
            self._loop.wake()

    def ask(self, what: str, seconds: float, question: Callable[[Loop], Coroutine[Any, Any, _T]]) -> _T:
        """The result of a coroutine that runs on the loop. Raises what it raises, and TimedOut when there is
        none after that time; the coroutine then goes on, and nobody hears of its result."""
        answer = Future[_T]()
        self.post(lambda loop: _settle(loop.spawn(question(loop)), answer))
        if not wait([answer], seconds).done:
            raise TimedOut(f"{what}: no answer within {seconds:.0f} s")
        return answer.result()

    def _run(self, loop: Loop) -> None:
        while True:
            self._guard(partial(loop.run_once, _LONGEST_WAIT))
            while self._jobs:
                self._guard(partial(self._jobs.popleft(), loop))

    def _guard(self, step: Callable[[], object]) -> None:
        """The questions to other clusters continue, whatever happens."""
        try:
            step()
        except Exception:  # noqa: BLE001 - logged; it concerns one question
            _log.exception("%s: a step failed", self._name)


def _settle(promise: Promise[_T], answer: Future[_T]) -> None:
    promise.when_done(partial(_hand_over, promise, answer))


def _hand_over(promise: Promise[_T], answer: Future[_T]) -> None:
    try:
        result = promise.result()
    except HeadraceError as error:
        # Several threads may get the same error, and keep it: theirs holds no frames of the client.
        answer.set_exception(copy(error))
    except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
        answer.set_exception(error)
    else:
        answer.set_result(result)


@cache
def shared_loop() -> LoopThread:
    """The one of this process."""
    return LoopThread("kafka")
