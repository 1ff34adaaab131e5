"""ZooKeeper session with kazoo. Implements `ports.NodeStore` below a root."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    KazooException,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent, ZnodeStat

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper_access import (
    authenticate_by_sasl,
    client_options,
    connect_through_tls,
    is_open,
)
from mirror.adapters.zookeeper_errors import translated
from mirror.adapters.zookeeper_waits import ServerWatch
from mirror.errors import AlreadyExists, NotAuthorized, NotFound, Unreachable, VersionConflict
from mirror.loggers import get_logger
from mirror.model.nodes import NewNode, NextNode, Node, NodeChange, NodeDeletion, NodeWrite, SessionState
from mirror.ports import Watch

if TYPE_CHECKING:
    from kazoo.client import AsyncResult

_log = get_logger(__name__)
_T = TypeVar("_T")
_BEAT_SECONDS: Final = 0.5
_MOMENT_SECONDS: Final = 2.0
_WINDOW: Final = 500
"""Maximum number of requests in flight. A server with thousands of pending requests stops reading."""
_REFUSED_TIMEOUTS: Final = 2
"""Number of session timeouts for which servers may reject the session, before a new session is started.

A server that has lost data rejects sessions with newer changes.
"""
_OTHERS_FAILED: Final = (RolledBackError, RuntimeInconsistency)
"""ZooKeeper's result for an operation in a transaction that failed because of another operation."""

_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


class ZooKeeper:
    """One ZooKeeper session.

    `on_state`: called on kazoo's thread; must only put the state into a queue. `while_waiting`: called
    periodically by every thread that waits for a response.
    """

    def __init__(
        self,
        settings: ZooKeeperSettings,
        on_state: Callable[[SessionState], None] | None = None,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._on_state = on_state
        self._deadline = settings.session_timeout_seconds
        self._contact = time.monotonic()
        self._client = KazooClient(
            hosts=settings.servers,
            timeout=settings.session_timeout_seconds,
            connection_retry={"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 2},
            **client_options(settings.security),
        )
        if settings.security.tls:
            connect_through_tls(self._client, settings.security)
        if settings.security.mechanism == "DIGEST-MD5":
            authenticate_by_sasl(self._client, settings.security)
        self._answered = threading.Event()
        self._trouble: Exception | None = None
        self._client.add_listener(self._changed)
        self._granted = settings.session_timeout_seconds
        self._beat, self._beat_took = -math.inf, 0.0
        self._beats: deque[float] = deque()
        self._while_waiting = while_waiting
        self._refused_since: float | None = None
        self._follow_connecting()
        ServerWatch(self._client, self.session_timeout_seconds).install()

    def start(self) -> None:
        """Connect to ZooKeeper and start the session.

        Raises Unreachable after `connect_timeout_seconds`, NotAuthorized for rejected credentials.
        """
        # Not KazooClient.start: it misses a session that was created and rejected before its first check.
        self._client.start_async()
        if not (self._answered.wait(self._settings.connect_timeout_seconds) and self._is_accepted()):
            self.stop()
            raise self._why_not() from self._trouble

    def _is_accepted(self) -> bool:
        try:
            self._client.exists_async("/").get(timeout=self._deadline)
        except (KazooTimeoutError, KazooException) as error:
            self._note_trouble(error)
            return False
        return True

    def _note_trouble(self, error: Exception) -> None:
        """Remember the first authentication failure, because later calls may fail with any error of kazoo."""
        if not isinstance(self._trouble, AuthFailedError):
            self._trouble = error

    def _why_not(self) -> NotAuthorized | Unreachable:
        if isinstance(self._trouble, AuthFailedError):
            return NotAuthorized(
                f"ZooKeeper at {self._settings.servers} rejected the credentials",
                advice="check zookeeper.security: mechanism, username and password",
            )
        why = f" ({self._trouble.__cause__ or self._trouble})" if self._trouble else ""
        return Unreachable(
            f"cannot connect to ZooKeeper at {self._settings.servers}{why}",
            advice="start it (headrace-dev stack up zookeeper) or set zookeeper.servers",
        )

    def stop(self) -> None:
        """End the session immediately, which removes its ephemeral nodes. Idempotent."""
        self._client.stop()
        self._client.close()

    @property
    def is_connected(self) -> bool:
        """True if the session is connected."""
        return self._client.connected

    def last_contact(self) -> float:
        """Return the send time of the latest request with a response (monotonic seconds)."""
        return self._contact

    def session_timeout_seconds(self) -> float:
        """Return the session timeout that the server granted. The timeout may be shorter than configured."""
        return min(self._granted, self._settings.session_timeout_seconds)

    def open_nodes(self) -> tuple[str, ...]:
        """Return the nodes, among the root and its children, that any network client may read or change.

        Nodes whose ACL cannot be read are omitted. The paths are absolute.
        """
        root = self._settings.root
        paths = [root, *(f"{root}/{name}" for name in self.children(""))]
        found = []
        for path, result in [(path, self._client.get_acls_async(path)) for path in paths]:
            with contextlib.suppress(NotFound, NotAuthorized), self._translated_errors(path):
                rules, _ = self._answer(result)
                if is_open(rules):
                    found.append(path)
        return tuple(found)

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and its parents; return its path below the root."""
        with self._translated_errors(path):
            made = self._answer(
                self._client.create_async(
                    self._full(path), data, ephemeral=ephemeral, sequence=sequential, makepath=True
                )
            )
        return made.removeprefix(self._settings.root)

    def create_all(self, nodes: Sequence[tuple[str, bytes]]) -> None:
        """Create missing parents and then all nodes, with up to `_WINDOW` requests in flight."""
        made = {path for path, _ in nodes}
        parents = sorted({path.rpartition("/")[0] for path in made} - made)
        self._all(parents, lambda path: self._client.ensure_path_async(self._full(path)))
        data = dict(nodes)
        self._all(list(data), lambda path: self._client.create_async(self._full(path), data[path]))

    def read_all(self, paths: Sequence[str]) -> Sequence[Node]:
        """Read all given nodes, with `_WINDOW` requests in flight."""
        found = self._all(paths, lambda path: self._client.get_async(self._full(path)))
        return [Node(data, stat.version) for data, stat in (found[path] for path in paths)]

    def read_present(
        self, paths: Sequence[str], watch_of: Callable[[str], Watch] | None = None
    ) -> Mapping[str, Node]:
        """Read all nodes that exist, with `_WINDOW` requests in flight."""

        def ask(path: str) -> AsyncResult[tuple[bytes, ZnodeStat]]:
            watch = watch_of(path) if watch_of is not None else None
            return self._client.get_async(self._full(path), _forward(watch))

        found = self._all(paths, ask, NotFound)
        return {path: Node(data, stat.version) for path, (data, stat) in found.items()}

    def sync(self) -> None:
        """Synchronise the connected server with the ensemble's leader, so that reads are up to date."""
        with self._translated_errors("/"):
            self._answer(self._client.sync_async(self._full("")))

    def _all(
        self, paths: Sequence[str], ask: Callable[[str], AsyncResult[_T]], *left_out: type[NotFound]
    ) -> dict[str, _T]:
        """Request each path, and map it to its result. Paths whose requests raise `left_out` are omitted."""
        answers: dict[str, _T] = {}
        for start in range(0, len(paths), _WINDOW):
            some = paths[start : start + _WINDOW]
            results = [ask(path) for path in some]
            for path, result in zip(some, results, strict=True):
                with contextlib.suppress(*left_out), self._translated_errors(path):
                    answers[path] = self._answer(result)
        return answers

    def read(self, path: str, watch: Watch | None = None) -> Node:
        """Return data and version of a node. If the node is missing, the watch fires when it is created."""
        full = self._full(path)
        while True:
            try:
                with self._translated_errors(path):
                    data, stat = self._answer(self._client.get_async(full, _forward(watch)))
            except NotFound:
                if not self._appeared(path, watch):
                    raise
            else:
                return Node(data, stat.version)

    def write(self, path: str, data: bytes, version: int) -> int:
        """Write a node if its version matches (compare-and-set); return the new version."""
        with self._translated_errors(path):
            stat = self._answer(self._client.set_async(self._full(path), data, version))
        return stat.version

    def change_together(self, changes: Sequence[NodeChange]) -> tuple[str, ...]:
        """Apply changes in one ZooKeeper transaction, creating missing parents of new nodes."""
        answers = self._commit(changes)
        if any(isinstance(node, NoNodeError) for node in _of_new_nodes(changes, answers)):
            made = {node.path.rpartition("/")[0] for node in _of_new_nodes(changes, changes)}
            self._all(sorted(made), lambda path: self._client.ensure_path_async(self._full(path)))
            answers = self._commit(changes)
        for change, answer in zip(changes, answers, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, _OTHERS_FAILED):
                with translated(change.path):
                    raise answer
        return tuple(
            answer.removeprefix(self._settings.root) for answer in answers if isinstance(answer, str)
        )

    def _commit(self, changes: Sequence[NodeChange]) -> list[object]:
        """Send a transaction, and return the result of each change. The result of a failure is its
        exception."""
        transaction = self._client.transaction()
        for change in changes:
            match change:
                case NodeWrite(path, data, version):
                    transaction.set_data(self._full(path), data, version)
                case NodeDeletion(path):
                    transaction.delete(self._full(path))
                case NextNode(path, data):
                    transaction.create(self._full(path), data, sequence=True)
                case NewNode(path, data):
                    transaction.create(self._full(path), data)
        with self._translated_errors(changes[0].path):
            return self._answer(transaction.commit_async())

    def delete(self, path: str, version: int | None = None) -> None:
        """Delete a leaf node."""
        with contextlib.suppress(NotFound), self._translated_errors(path):
            expected = -1 if version is None else version
            self._answer(self._client.delete_async(self._full(path), expected))

    def delete_tree(self, path: str) -> None:
        """Delete a node and its descendants, children first."""
        for name in self.children(path):
            self.delete_tree(f"{path}/{name}")
        try:
            self.delete(path)
        except VersionConflict:
            self.delete_tree(path)  # a child was added concurrently

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        """Return the sorted names of the children.

        If the node is missing, the result is empty, and the watch fires when it is created.
        """
        full = self._full(path)
        while True:
            try:
                with self._translated_errors(path):
                    names = self._answer(self._client.get_children_async(full, _forward(watch)))
            except NotFound:
                if not self._appeared(path, watch):
                    return ()
            else:
                return tuple(sorted(names))

    def _appeared(self, path: str, watch: Watch | None) -> bool:
        """Set a watch on a missing node. Return whether the node was created in the meantime."""
        if watch is None:
            return False
        with self._translated_errors(path):
            return self._answer(self._client.exists_async(self._full(path), _forward(watch))) is not None

    def beat(self) -> None:
        """Send a heartbeat without waiting for the response, unless the last heartbeat is recent.

        The response counts as contact with the server, even while a caller waits for many other responses.
        """
        now = time.monotonic()
        if self.is_connected and now - self._beat >= _BEAT_SECONDS:
            self._beat = now
            self._beats.append(now)
            self._client.exists_async(self._full("")).rawlink(self._answered_beat)

    def answer_seconds(self) -> float:
        """Return the response time of the last heartbeat in seconds.

        If the current heartbeat has waited longer, its waiting time is returned.
        """
        beats = list(self._beats)
        return max(self._beat_took, time.monotonic() - beats[0] if beats and self.is_connected else 0.0)

    def is_answering(self) -> bool:
        """Return whether ZooKeeper is likely to respond promptly, judged by past heartbeats."""
        return self.is_connected and self.answer_seconds() < _MOMENT_SECONDS

    def _answered_beat(self, result: AsyncResult[ZnodeStat | None]) -> None:
        """Process the response to a heartbeat, on kazoo's thread.

        Responses and failures arrive in the order of the requests.
        """
        sent = self._beats.popleft()
        if result.successful():
            self._contact = max(self._contact, sent)
            self._beat_took = time.monotonic() - sent

    def _answer(self, result: AsyncResult[_T]) -> _T:
        until = time.monotonic() + self._deadline
        while True:
            left = until - time.monotonic()
            try:
                return result.get(timeout=max(0.0, min(left, _BEAT_SECONDS)))
            except KazooTimeoutError:
                if left <= _BEAT_SECONDS:
                    raise
                self._while_waiting()

    @contextlib.contextmanager
    def _translated_errors(self, path: str) -> Iterator[None]:
        sent = time.monotonic()
        try:
            with translated(path):
                yield
        except (NotFound, AlreadyExists, VersionConflict):
            self._contact = max(self._contact, sent)  # an error response is contact too
            raise
        self._contact = max(self._contact, sent)

    def _follow_connecting(self) -> None:
        """Wrap kazoo's connect to record connection errors and the granted session timeout.

        kazoo exposes neither. The timeout is derived from kazoo's read timeout.
        """
        connection = self._client._connection  # noqa: SLF001
        connect = connection._connect  # noqa: SLF001

        def noting(*address: object) -> tuple[float, float]:
            try:
                read_timeout_ms, connect_timeout_ms = connect(*address)
            except Exception as error:
                self._note_trouble(error)
                if isinstance(error, AuthFailedError):
                    self._answered.set()
                if connection._socket is not None:  # noqa: SLF001 - accepted, then closed
                    self._note_refusal(error)
                raise
            self._refused_since = None
            self._granted = read_timeout_ms * 1.5 / 1000
            self._answered.set()
            return read_timeout_ms, connect_timeout_ms

        connection._connect = noting  # noqa: SLF001

    def _note_refusal(self, error: Exception) -> None:
        """Abandon a session that servers have rejected for too long. Raises SessionExpiredError.

        Servers whose data is older than the session's last change always close the connection without a
        response.
        """
        now = time.monotonic()
        if not self._client.last_zxid:
            return
        if self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since >= _REFUSED_TIMEOUTS * self._settings.session_timeout_seconds:
            self._refused_since = None
            _log.error(
                "session abandoned: ZooKeeper rejects it, and may have older data than was read before",
                servers=self._settings.servers,
                session_timeouts=_REFUSED_TIMEOUTS,
                last_change=f"{self._client.last_zxid:#x}",
            )
            raise SessionExpiredError("ZooKeeper rejected the session for too long") from error

    def _full(self, path: str) -> str:
        return self._settings.root + path

    def _changed(self, state: str) -> None:
        if self._on_state is not None:
            self._on_state(_STATES[state])


def _forward(watch: Watch | None) -> Callable[[WatchedEvent], None] | None:
    return None if watch is None else _Forward(watch)


class _Forward:
    """Watch callback with equality, so that kazoo keeps one callback per path instead of one per read."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __call__(self, event: WatchedEvent) -> None:
        self._watch()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Forward) and other._watch == self._watch

    def __hash__(self) -> int:
        return hash(self._watch)


def _of_new_nodes(changes: Sequence[NodeChange], values: Sequence[_T]) -> list[_T]:
    """Return only the values of those changes that create a node. `values`: one value for each change."""
    pairs = zip(changes, values, strict=True)
    return [value for change, value in pairs if isinstance(change, (NewNode, NextNode))]
