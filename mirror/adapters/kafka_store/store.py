"""The store on Kafka: a replica that follows the log, and the session of this process.

All code of this module runs on one event loop. A command is written to the log, and its result is known when
the replica reads it back. Other threads read the replica directly, and submit commands through `session.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mirror.adapters.kafka_store.command_writer import CommandWriter
from mirror.adapters.kafka_store.log_tail import LogDiscontinued, LogTail, ReadRecords
from mirror.adapters.kafka_store.snapshot_topic import SnapshotTopic
from mirror.adapters.kafka_store.topics import StoreTopics, ensure_topics
from mirror.bulkheads import Bulkhead
from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop, Promise
from mirror.coordination.store.commands import Changes, Command, EndSession, Heartbeat, OpenSession, Result
from mirror.coordination.store.heartbeats import HEARTBEATS, SessionContact, SilenceObserver
from mirror.coordination.store.log_state import AppliedCommand, LogState, apply_record
from mirror.coordination.store.replica import StateReplica, call_watches
from mirror.coordination.store.session import SessionIdentity
from mirror.errors import HeadraceError, NewerFormat, SessionLost, Unexpected, Unreachable
from mirror.loggers import get_logger
from mirror.model.nodes import SessionState
from mirror.model.reasons import named

_log = get_logger(__name__)
_ID_BYTES: Final = 8
_STEPS: Final = 12
"""Number of checks of the session per session timeout."""
_TOGETHER_SECONDS: Final = 0.05
"""Seconds in which changes of other instances accumulate before they are read.

All instances together write dozens of heartbeats per second. Reading each of them separately would use
several per cent of a core on every instance.
"""
_PAUSE_SECONDS: Final = 0.25
_LONG_PAUSE_SECONDS: Final = 5.0
"""Seconds to wait after an error that is not retriable."""
_LEAST_GROWTH: Final = 4 * 1024 * 1024
"""Minimum growth of the log, in bytes, before a new snapshot is written."""
_RANK_SHARE: Final = 0.5
"""Share of the usual log growth for which an instance delays a snapshot, per session that is older than its
own. Normally, only the instance with the oldest session writes snapshots."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of the store on Kafka. `replication_factor`: see `ensure_topics`."""

    topic: str
    session_timeout_seconds: float
    replication_factor: int = -1
    least_growth: int = _LEAST_GROWTH


@dataclass(frozen=True, slots=True)
class StoreEvents:
    """Callbacks, called on the thread of the event loop. Callbacks must only enqueue.

    `on_trouble`: called with an error that prevents the use of the log (temporarily, if it is retriable), and
    with None when the log is usable again.
    """

    on_state: Callable[[SessionState], None] = lambda _: None
    on_trouble: Callable[[HeadraceError | None], None] = lambda _: None


@dataclass(slots=True)
class _Followed:
    """The loaded log: its topics, its state, and the position of the reader.

    `growth`: bytes since the latest snapshot.
    """

    topics: StoreTopics
    state: LogState
    tail: LogTail
    snapshots: SnapshotTopic
    writer: CommandWriter
    growth: int = 0


@dataclass(slots=True)
class LogTrouble:
    """The error that currently prevents the use of the log, and the last error that was reported."""

    error: HeadraceError | None = None
    since: float = 0.0
    reported: str = ""

    def note(self, error: HeadraceError | None, now: float, patience: float) -> bool:
        """Set the current error; None means that the log is usable. Return whether to report the change.

        A retriable error is reported only after `patience` seconds, because the election of a partition
        leader takes less time.
        """
        if self.error is None:
            self.since = now
        self.error = error
        is_due = error is None or not error.retriable or now - self.since >= patience
        text = "" if error is None else str(error)
        if not is_due or text == self.reported:
            return False
        self.reported = text
        return True


class KafkaStore:
    """The store on Kafka: a replica of the log's state, and the session of this process. Opens a new session
    after one was lost. Use only on the event loop's thread, except `replica`, `identity` and `state`."""

    def __init__(self, cluster: Cluster, options: StoreOptions, events: StoreEvents) -> None:
        self._cluster = cluster
        self._options = options
        self._events = events
        self.replica = StateReplica()
        self.identity = SessionIdentity("")
        self.state = SessionState.LOST
        """State of the session as last reported."""
        self.answered_at = cluster.loop.now()
        """Send time of the latest heartbeat that was read back."""
        self._trouble = LogTrouble()
        self._followed: _Followed | None = None
        self._contact: SessionContact | None = None
        self._observer = SilenceObserver(options.session_timeout_seconds)
        self._ending: dict[str, Promise[Result]] = {}
        self._is_opening = self._is_snapshotting = False
        self._is_closed = self._is_leaving = False
        self._foreign = 0

    @property
    def loop(self) -> Loop:
        """Event loop on which the store runs."""
        return self._cluster.loop

    @property
    def contact(self) -> SessionContact | None:
        """Times of the last contact of the current session, or None without a session."""
        return self._contact

    @property
    def log_state(self) -> LogState | None:
        """State of the log as last read, or None before it was loaded."""
        return self._followed.state if self._followed is not None else None

    def start(self) -> None:
        """Start to follow the log. Open a session when the whole log has been read."""
        self.loop.spawn(self._follow())
        self._step()

    def submit(self, command: Command) -> Promise[Result]:
        """Write a command, and return a promise of its result. Raises Unreachable while the log is not
        loaded.

        The promise may fail with Unreachable.
        """
        if self._followed is None or self._is_closed:
            raise self._unusable()
        return self._followed.writer.submit(command)

    async def sync(self) -> None:
        """Wait until the replica contains all commands that were written before this call.

        Failed commands of this process can then no longer take effect. Raises Unreachable, SessionLost.
        """
        contact = self._contact
        if contact is None:
            raise SessionLost("the session with the coordination store has ended")
        await self.submit(Heartbeat(self.identity.name, contact.send(self.loop.now())))

    async def end_session(self) -> None:
        """End the session without opening another one. Raises Unreachable."""
        self._is_leaving = True
        if self._contact is not None:
            self._contact, self.state = None, SessionState.LOST
            call_watches(self.replica.forget(self.identity.name))
            await self.submit(EndSession(self.identity.name))

    def close(self) -> None:
        """Stop following the log and close all connections. Idempotent."""
        self._is_closed = self._is_leaving = True
        self._lose_session(SessionLost("the coordination store is closed"))
        self._cluster.close()

    async def others_judged(self) -> None:
        """Wait until every other session has sent another heartbeat or has been ended."""
        while self._followed is None or self._observer.unheard:
            await self.loop.sleep(self._options.session_timeout_seconds / _STEPS)

    @property
    def longest_timeout(self) -> float:
        """Longest session timeout among all instances, in seconds."""
        return max(self._observer.longest_timeout, self._options.session_timeout_seconds)

    @property
    def trouble(self) -> HeadraceError | None:
        """Error that prevents the use of the log, or None."""
        return self._trouble.error

    def _unusable(self) -> Unreachable:
        trouble = self.trouble
        reason = f": {trouble.message}" if trouble else ""
        return Unreachable(
            f"the coordination store at {self._cluster.name} cannot be used{reason}",
            advice=trouble.advice if trouble else "",
        )

    async def _follow(self) -> None:
        """Load and follow the log until the store is closed."""
        while not self._is_closed:
            with Bulkhead() as following:
                if self._followed is None:
                    await self._load()
                await self._read_on()
            if following.failure is not None:
                await self._recover(following.failure)

    async def _recover(self, error: Exception) -> None:
        """Continue after a failure: load the store again, unless a retry of the request is enough."""
        if isinstance(error, LogDiscontinued):
            _log.warning("loading the coordination store again", reason=str(error))
            self._discontinue(str(error))
        elif isinstance(error, HeadraceError):
            await self._pause(error)
        else:
            _log.error("loading the coordination store again", exc_info=error)
            self._discontinue(str(error))
            await self._pause(Unexpected(f"unexpected {named(error)}"))

    async def _pause(self, error: HeadraceError) -> None:
        if self._is_closed:
            return
        self._note_trouble(error)
        await self.loop.sleep(_PAUSE_SECONDS if error.retriable else _LONG_PAUSE_SECONDS)
        try:
            await self._cluster.refresh([self._options.topic])
        except HeadraceError as error:
            _log.debug("cannot refresh metadata", cluster=self._cluster.name, reason=str(error))

    async def _load(self) -> None:
        options = self._options
        topics = await ensure_topics(self._cluster, options.topic, options.replication_factor)
        self._cluster.pin(self._cluster.cluster_id)
        snapshots = SnapshotTopic(self._cluster, topics)
        state = await snapshots.newest_state()
        tail = LogTail(self._cluster, topics.log, state.next_offset)
        writer = CommandWriter(self._cluster, topics.log, topics.largest_bytes)
        self._followed = _Followed(topics, state, tail, snapshots, writer)
        self.replica.publish(state.state, [])
        self._observer.observe(state.state.sessions, self.identity.name, self.loop.now())
        call_watches(self.replica.forget())
        self._judge_session()

    def _discontinue(self, reason: str) -> None:
        """Stop using the log, and fail all commands in flight, whose effect is unknown."""
        followed, self._followed = self._followed, None
        if followed is not None:
            followed.writer.fail_all(Unreachable(f"the coordination log was interrupted: {reason}"))

    async def _read_on(self) -> None:
        followed = self._followed
        while followed is not None and not self._is_closed:
            found = await followed.tail.read()
            if followed is not self._followed:
                return
            self._note_trouble(None)
            self._apply(followed, found)
            self._judge_session()
            self._snapshot_if_due(followed)
            if found.records:
                await followed.writer.rest(_TOGETHER_SECONDS)

    def _apply(self, followed: _Followed, found: ReadRecords) -> None:
        """Apply records, publish the new state, then resolve the promises. Raises NewerFormat."""
        log, applied, changes = followed.state, list[AppliedCommand](), list[Changes]()
        for record in found.records:
            try:
                log, command = apply_record(log, record.offset, record.value or b"")
            except NewerFormat as error:
                self._discontinue(error.message)
                raise
            if command is not None:
                applied.append(command)
                changes.append(command.result.changes)
        if log.snapshot != followed.state.snapshot:
            followed.growth = 0
        followed.state = log
        followed.growth += found.size
        self._note_foreign(log.foreign)
        fired = self.replica.publish(log.state, changes)
        self._observer.observe(log.state.sessions, self.identity.name, self.loop.now())
        for command in applied:
            followed.writer.applied(command)
        call_watches(fired)

    def _note_foreign(self, count: int) -> None:
        if count > self._foreign:
            _log.warning(
                "records of other programs in the coordination log ignored",
                topic=self._options.topic,
                records=count,
                advice="use the topic for nothing else",
            )
        self._foreign = count

    def _note_trouble(self, error: HeadraceError | None) -> None:
        patience = self._options.session_timeout_seconds / HEARTBEATS
        if self._trouble.note(error, self.loop.now(), patience):
            if error is None:
                _log.info("coordination store available again")
            else:
                _log.warning("coordination store unavailable", reason=str(error))
            self._events.on_trouble(error)

    # Session

    def _step(self) -> None:
        """Send a heartbeat if one is due, end silent sessions, and update the state of the session.

        Schedules the next call.
        """
        if self._is_closed:
            return
        self.loop.call_later(self._options.session_timeout_seconds / _STEPS, self._step)
        now = self.loop.now()
        self._judge_session()
        contact = self._contact
        if contact is not None and self._followed is not None:
            number = contact.next_heartbeat(now)
            if number is not None:
                self._followed.writer.submit(Heartbeat(self.identity.name, number))
            self._end_silent_sessions(now)
        elif contact is None and self._followed is not None and not (self._is_opening or self._is_leaving):
            self._is_opening = True
            self.loop.spawn(self._open_session())

    async def _open_session(self) -> None:
        former, identity = self.identity, SessionIdentity(secrets.token_hex(_ID_BYTES))
        timeout = self._options.session_timeout_seconds
        try:
            if former.name:
                await self.submit(EndSession(former.name))
            contact = SessionContact(timeout, self.loop.now())
            await self.submit(OpenSession(identity.name, round(timeout * 1000)))
        except HeadraceError as error:
            _log.debug("cannot open a session", reason=str(error))
        else:
            self.identity, self._contact = identity, contact
            self._judge_session()
        finally:
            self._is_opening = False

    def _judge_session(self) -> None:
        contact, followed = self._contact, self._followed
        if contact is None:
            return
        now = self.loop.now()
        if followed is not None:
            own = followed.state.state.sessions.get(self.identity.name)
            if own is None:
                self._lose_session(SessionLost("another instance ended this session for lack of heartbeats"))
                return
            contact.read_back(own.heartbeat, now)
            self.answered_at = contact.answered_at
        state = contact.state(now)
        if state is SessionState.LOST:
            self._lose_session(SessionLost("no heartbeat was read back within the session timeout"))
        elif state is not self.state:
            if state is SessionState.CONNECTED:
                self._observer.restart(now)
            self._report(state)

    def _lose_session(self, error: SessionLost) -> None:
        self._contact = None
        if self._followed is not None:
            self._followed.writer.fail_all(error)
        if self.state is not SessionState.LOST:
            if not self._is_closed:
                _log.warning("session with the coordination store lost", reason=str(error))
            self._report(SessionState.LOST)

    def _report(self, state: SessionState) -> None:
        self.state = state
        self._events.on_state(state)
        if state is not SessionState.CONNECTED:
            call_watches(self.replica.forget(self.identity.name))

    def _end_silent_sessions(self, now: float) -> None:
        """End the sessions of other instances that sent no heartbeat for their timeout.

        Does nothing unless the session of this process is certainly alive.
        """
        if self.state is not SessionState.CONNECTED:
            return
        self._ending = {name: promise for name, promise in self._ending.items() if not promise.is_done}
        for command in self._observer.silent(now):
            if command.session not in self._ending:
                _log.warning("ending the silent session of another instance", session=command.session)
                self._ending[command.session] = self.submit(command)

    # Snapshots

    def _snapshot_if_due(self, followed: _Followed) -> None:
        if self._is_snapshotting or self.state is not SessionState.CONNECTED:
            return
        rank = sorted(followed.state.state.sessions).index(self.identity.name)
        tolerated = max(followed.state.snapshot.size, self._options.least_growth)
        if followed.growth >= tolerated * (1 + rank * _RANK_SHARE):
            self._is_snapshotting = True
            self.loop.spawn(self._write_snapshot(followed))

    async def _write_snapshot(self, followed: _Followed) -> None:
        try:
            note = await followed.snapshots.write(followed.state)
            await followed.snapshots.clean()
            if followed is self._followed:
                await followed.writer.submit(note)
        except HeadraceError as error:
            _log.warning("cannot write a snapshot of the coordination store", reason=str(error))
            await self.loop.sleep(self._options.session_timeout_seconds / HEARTBEATS)
        finally:
            self._is_snapshotting = False
