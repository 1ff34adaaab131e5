"""In-memory copy of the state, with the watches on its nodes. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from enum import Enum

from mirror.bulkheads import Bulkhead
from mirror.coordination.store.commands import Changes
from mirror.coordination.store.machine import State
from mirror.coordination.store.tree import TreeNode, find
from mirror.errors import SessionLost
from mirror.loggers import get_logger
from mirror.ports import Watch

_log = get_logger(__name__)


class WatchKind(Enum):
    """Kind of change that a watch waits for: data or children."""

    DATA = "data"
    CHILDREN = "children"


FiredWatch = tuple[str, Watch]
"""A session id, and a watch of the session to call."""


class StateReplica:
    """The latest state, and the watches on its nodes."""

    def __init__(self, state: State | None = None) -> None:
        self._state = state or State()
        self._lock = threading.Lock()
        self._watches: dict[tuple[WatchKind, str], list[FiredWatch]] = {}

    @property
    def state(self) -> State:
        """Latest state that was published."""
        return self._state

    def read_node(
        self,
        session: str,
        path: str,
        watch: Watch | None = None,
        kind: WatchKind = WatchKind.DATA,
        *,
        waits: bool = True,
    ) -> TreeNode | None:
        """Return the node at a path or None, and set a watch on it atomically. Raises SessionLost.

        `waits`: set the watch even if the node is missing.
        """
        with self._lock:
            if session not in self._state.sessions:
                raise SessionLost("the session with the coordination store has ended")
            node = find(self._state.root, path)
            if watch is not None and (waits or node is not None):
                waiting = self._watches.setdefault((kind, _plain(path)), [])
                if (session, watch) not in waiting:
                    waiting.append((session, watch))
            return node

    def publish(self, state: State, changes: Sequence[Changes]) -> list[FiredWatch]:
        """Replace the state. Return the watches on changed nodes.

        The caller calls the watches after it has released its locks.
        """
        fired: list[FiredWatch] = []
        with self._lock:
            self._state = state
            for change in changes:
                for kind, paths in ((WatchKind.DATA, change.data), (WatchKind.CHILDREN, change.children)):
                    for path in sorted(paths):
                        fired += self._watches.pop((kind, path), ())
        return fired

    def forget(self, session: str | None = None) -> list[FiredWatch]:
        """Remove and return the watches of one session, or of all sessions if `session` is None."""
        with self._lock:
            before = self._watches
            self._watches, removed = {}, list[FiredWatch]()
            for key, waiting in before.items():
                kept = [watch for watch in waiting if session not in {None, watch[0]}]
                removed += [watch for watch in waiting if session in {None, watch[0]}]
                if kept:
                    self._watches[key] = kept
        return removed


def call_watches(fired: Iterable[FiredWatch]) -> None:
    """Call the watches that have fired.

    Exceptions of watches are logged, because a watch must not fail the write that fired it.
    """
    for _, watch in fired:
        with Bulkhead(lambda _: _log.exception("watch of the coordination store failed")):
            watch()


def _plain(path: str) -> str:
    return "" if path == "/" else path
