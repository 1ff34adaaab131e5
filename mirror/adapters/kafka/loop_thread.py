"""Event loop on its own thread, for callers on other threads that wait for results."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from copy import copy
from functools import cache, partial
from typing import Any, Final, TypeVar

from mirror.adapters.system_clock import SystemClock
from mirror.bulkheads import Bulkhead
from mirror.client.event_loop import Loop, Promise
from mirror.errors import HeadraceError, TimedOut
from mirror.loggers import get_logger

_log = get_logger(__name__)
_T = TypeVar("_T")
Job = Callable[[Loop], object]
_MOMENT_SECONDS: Final = 0.5
_LONGEST_WAIT: Final = 3600.0
"""Maximum seconds for which the idle loop sleeps. A new job interrupts it."""


class LoopThread:
    """An event loop on its own daemon thread, which starts with the first job. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._loop: Loop | None = None

    def post(self, job: Job) -> None:
        """Schedule a job on the loop's thread without waiting for it. Logs the exceptions of the job."""
        with self._lock:
            if self._loop is None:
                self._loop = Loop(SystemClock())
                threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True).start()
            self._jobs.append(job)
            self._loop.wake()

    def ask(
        self,
        operation: str,
        seconds: float,
        question: Callable[[Loop], Coroutine[Any, Any, _T]],
        while_waiting: Callable[[], None] | None = None,
    ) -> _T:
        """Run a coroutine on the loop's thread, and return its result.

        `operation`: start of the message of TimedOut, such as `cannot list topics`. `while_waiting`: called
        periodically until the coroutine has ended.

        Raises the errors of the coroutine, and TimedOut after `seconds`. After a timeout, the coroutine
        continues, and its result is discarded.
        """
        answer = Future[_T]()
        self.post(lambda loop: _settle(loop.spawn(question(loop)), answer))
        until = time.monotonic() + seconds
        while not wait([answer], self._patience(until, while_waiting)).done:
            if time.monotonic() >= until:
                raise TimedOut(f"{operation}: no response within {seconds:.0f} s")
            if while_waiting is not None:
                while_waiting()
        return answer.result()

    @staticmethod
    def _patience(until: float, while_waiting: Callable[[], None] | None) -> float:
        left = max(until - time.monotonic(), 0.0)
        return left if while_waiting is None else min(left, _MOMENT_SECONDS)

    def _run(self, loop: Loop) -> None:
        while True:
            self._guard(partial(loop.run_once, _LONGEST_WAIT))
            while self._jobs:
                self._guard(partial(self._jobs.popleft(), loop))

    def _guard(self, step: Callable[[], object]) -> None:
        """Run one step of the loop, and log its exceptions."""
        with Bulkhead(lambda _: _log.exception("step failed", thread=self._name)):
            step()


def _settle(promise: Promise[_T], answer: Future[_T]) -> None:
    promise.when_done(partial(_hand_over, promise, answer))


def _hand_over(promise: Promise[_T], answer: Future[_T]) -> None:
    try:
        result = promise.result()
    except HeadraceError as error:
        # Threads that share an error keep it: each gets a copy without the client's traceback.
        answer.set_exception(copy(error))
    except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
        answer.set_exception(error)
    else:
        answer.set_result(result)


@cache
def shared_loop() -> LoopThread:
    """Return the event loop thread that the clients of this process share."""
    return LoopThread("kafka")
