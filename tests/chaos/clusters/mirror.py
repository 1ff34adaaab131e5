"""An engine with the settings of a service, in its own thread."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from mirror.model.datastreams.lanes import LanePaused, LaneStopped
from mirror.model.datastreams.policy import CopyPolicy
from mirror.replication.options import CopyingOptions
from tests.engines import EngineUnderTest
from tests.patience import wait_until

_CHECKPOINT_SECONDS: Final = 2.0
_STEP_SECONDS: Final = 0.02
_LOOK_SECONDS: Final = 0.2
_DEFAULTS: Final = CopyingOptions()
_OPTIONS: Final = {
    name: getattr(_DEFAULTS, name)
    for name in ("probe_first_seconds", "probe_longest_seconds", "request_timeout_seconds")
}
_DETAILS: Final = re.compile(r", since 2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d UTC")
T = TypeVar("T")


class Mirror:
    """Copies topics between two clusters under the same names."""

    def __init__(self, source: str, destination: str) -> None:
        self._engine = EngineUnderTest(
            source, destination, options=_OPTIONS, checkpoint_seconds=_CHECKPOINT_SECONDS
        )
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror")
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and drop all connections."""
        self._is_ending.set()
        if self._thread.is_alive():
            self._thread.join()
        self._engine.crash()

    def copy(self, topic: str, partitions: int, policy: CopyPolicy) -> None:
        """Start copying a topic."""
        self._do(lambda: self._engine.start(topic, partitions, policy=policy))

    def reasons(self) -> Counter[str]:
        """Return the reasons of the lanes for waits and pauses, without times, with numbers of reports."""
        found = self._do(lambda: list(self._engine.events))
        return Counter(
            _DETAILS.sub("", event.reason)
            if isinstance(event, LanePaused)
            else f"stopped at {event.next_offset}"
            for event in found
            if isinstance(event, LanePaused | LaneStopped)
        )

    def gaps(self) -> list[str]:
        """Return the losses that the lanes have recorded."""
        return self._do(lambda: [gap for lane in self._engine.lanes.values() for gap in lane.progress.gaps])

    def describe(self) -> str:
        """Return the state of the lanes."""
        return self._do(self._engine.describe)

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Keep the engine from doing anything within the context."""
        begun, is_over = threading.Event(), threading.Event()

        def stand_by() -> None:
            begun.set()
            is_over.wait()

        self._calls.put((stand_by, Future()))
        try:
            wait_until(begun.is_set, "the engine halts")
            yield
        finally:
            is_over.set()

    def _do(self, call: Callable[[], T]) -> T:
        """Return the result of a call that the engine's thread makes."""
        result: Future[T] = Future()
        self._calls.put((call, result))
        while not result.done():
            if not self._thread.is_alive():
                raise AssertionError("the engine has failed") from self.failure
            wait([result], _LOOK_SECONDS)
        return result.result()

    def _run(self) -> None:
        try:
            while not self._is_ending.is_set():
                self._engine.step(_STEP_SECONDS)
                while not self._calls.empty():
                    call, result = self._calls.get()
                    result.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the run raises it
            self.failure = error
