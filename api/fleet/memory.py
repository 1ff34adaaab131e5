"""Cache of the shared state, for times when ZooKeeper does not respond."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from mirror.errors import SessionLost, Unreachable
from mirror.ports import Clock

_T = TypeVar("_T")
_AWAY: Final = (Unreachable, SessionLost)
_AT_ONCE: Final = 8
_LOOK_SECONDS: Final = 0.1
"""Interval of checks whether ZooKeeper still responds, while waiting for a result."""


@dataclass(frozen=True, slots=True)
class CachedValue(Generic[_T]):
    """A value read from ZooKeeper. `as_of_ms`: start of the read; the value includes all earlier writes.
    `is_now`: True if it was read for this request."""

    value: _T
    as_of_ms: int
    is_now: bool = True


class StateMemory:
    """Reads the shared state and caches it by kind. Thread-safe. `is_answering`: returns whether ZooKeeper
    responded last, without a request."""

    def __init__(self, clock: Clock, is_answering: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_answering = is_answering
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "reads")
        self._last: dict[str, CachedValue[Any]] = {}
        self._parts: dict[str, dict[str, CachedValue[Any]]] = {}

    def read(self, kind: str, ask: Callable[[], _T]) -> CachedValue[_T]:
        """Return the current value, or while ZooKeeper is down the cached one. Raises the errors of `ask`;
        Unreachable and SessionLost only without a cached value."""
        as_of_ms = self._clock.now_ms()
        last = self._last.get(kind)
        try:
            value = self._answer(ask, last is not None)
        except _AWAY:
            if last is None:
                raise
            return replace(last, is_now=False)
        seen = CachedValue(value, as_of_ms)
        with self._lock:
            newer = self._last.get(kind)
            if newer is None or newer.as_of_ms <= as_of_ms:
                self._last[kind] = seen
                parts = self._parts.get(kind, {})
                self._parts[kind] = {name: one for name, one in parts.items() if one.as_of_ms > as_of_ms}
        return seen

    def read_part(
        self, kind: str, name: str, ask: Callable[[], _T], part: Callable[[Any], _T]
    ) -> CachedValue[_T]:
        """Same for a value that is also part of a kind. `part` finds it in the cached value of that kind, and
        raises LookupError if it is missing, which does not mean that it is missing in ZooKeeper now."""
        as_of_ms = self._clock.now_ms()
        known = self._known_part(kind, name, part)
        try:
            value = self._answer(ask, known is not None)
        except _AWAY:
            if known is None:
                raise
            return replace(known, is_now=False)
        return self.note_part(kind, name, value, as_of_ms)

    def note_part(self, kind: str, name: str, value: _T, as_of_ms: int) -> CachedValue[_T]:
        """Cache a value that was read on its own or just written, without reading the whole kind."""
        seen = CachedValue(value, as_of_ms)
        with self._lock:
            parts = self._parts.setdefault(kind, {})
            if name not in parts or parts[name].as_of_ms <= as_of_ms:
                parts[name] = seen
        return seen

    def _known_part(self, kind: str, name: str, part: Callable[[Any], _T]) -> CachedValue[_T] | None:
        last, alone = self._last.get(kind), self._parts.get(kind, {}).get(name)
        if alone is not None and (last is None or alone.as_of_ms >= last.as_of_ms):
            return alone
        if last is None:
            return None
        try:
            return replace(last, value=part(last.value))
        except LookupError:
            return None

    def _answer(self, ask: Callable[[], _T], has_another: bool) -> _T:
        """Return the result of `ask`, executed in another thread because ZooKeeper may take as long as a
        session timeout. With a cached value, stop waiting once ZooKeeper is known to be down."""
        if has_another and not self._is_answering():
            raise _unreachable()
        answer: Future[_T] = self._threads.submit(ask)
        while not wait([answer], _LOOK_SECONDS).done:
            if has_another and not self._is_answering():
                answer.cancel()
                raise _unreachable()
        return answer.result()


def _unreachable() -> Unreachable:
    return Unreachable("ZooKeeper does not respond", advice="retry when it is available")
