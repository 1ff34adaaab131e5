"""What was read of the shared state last, for the time in which ZooKeeper does not answer."""

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
"""Between looks at whether ZooKeeper still answers, while an answer is waited for."""


@dataclass(frozen=True, slots=True)
class Seen(Generic[_T]):
    """What was read. `as_of_ms`: when the reading began; all that anybody had written before is in it.
    `is_now`: it was read for this call."""

    value: _T
    as_of_ms: int
    is_now: bool = True


class StateMemory:
    """Reads, and remembers by kind what it has read. For any thread. `is_answering`: whether ZooKeeper
    answers, as far as this instance knows without asking."""

    def __init__(self, clock: Clock, is_answering: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_answering = is_answering
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "reads")
        self._last: dict[str, Seen[Any]] = {}
        self._parts: dict[str, dict[str, Seen[Any]]] = {}

    def read(self, kind: str, ask: Callable[[], _T]) -> Seen[_T]:
        """What there is now; while ZooKeeper is away, what there was. Raises what `ask` raises, Unreachable
        and SessionLost only where nothing of the kind has been read before."""
        as_of_ms = self._clock.now_ms()
        last = self._last.get(kind)
        try:
            value = self._answer(ask, last is not None)
        except _AWAY:
            if last is None:
                raise
            return replace(last, is_now=False)
        seen = Seen(value, as_of_ms)
        with self._lock:
            newer = self._last.get(kind)
            if newer is None or newer.as_of_ms <= as_of_ms:
                self._last[kind] = seen
                parts = self._parts.get(kind, {})
                self._parts[kind] = {name: one for name, one in parts.items() if one.as_of_ms > as_of_ms}
        return seen

    def read_part(self, kind: str, name: str, ask: Callable[[], _T], part: Callable[[Any], _T]) -> Seen[_T]:
        """The same for what is also a part of a kind. `part`: finds it in what was read of that kind; raises
        LookupError where it was not there, which says nothing of what is there now."""
        as_of_ms = self._clock.now_ms()
        known = self._known_part(kind, name, part)
        try:
            value = self._answer(ask, known is not None)
        except _AWAY:
            if known is None:
                raise
            return replace(known, is_now=False)
        return self.note_part(kind, name, value, as_of_ms)

    def note_part(self, kind: str, name: str, value: _T, as_of_ms: int) -> Seen[_T]:
        """It is known without reading the whole kind: it was read alone, or written."""
        seen = Seen(value, as_of_ms)
        with self._lock:
            parts = self._parts.setdefault(kind, {})
            if name not in parts or parts[name].as_of_ms <= as_of_ms:
                parts[name] = seen
        return seen

    def _known_part(self, kind: str, name: str, part: Callable[[Any], _T]) -> Seen[_T] | None:
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
        """A thread of ours waits for ZooKeeper, which may take as long as a session; with another answer at
        hand nobody waits for that thread once it is known that ZooKeeper is away."""
        if has_another and not self._is_answering():
            raise _away()
        answer: Future[_T] = self._threads.submit(ask)
        while not wait([answer], _LOOK_SECONDS).done:
            if has_another and not self._is_answering():
                answer.cancel()
                raise _away()
        return answer.result()


def _away() -> Unreachable:
    return Unreachable("ZooKeeper does not answer", advice="ask again when it does")
