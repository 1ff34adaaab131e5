"""Main loop of a worker process: receives commands, copies partitions, reports measurements.

Outside the engine, the loop blocks for at most a few milliseconds. If the control process dies, the worker
writes the checkpoints and releases its lanes, and other workers take over. If the lease expires, the worker
stops all writes, including checkpoints. Workers of a copy have no lease. Every module that is imported here
uses memory in every worker.
"""

from __future__ import annotations

import faulthandler
import math
import select
import socket
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from mirror.errors import CorruptData, HeadraceError, SessionLost
from mirror.lane.parts.pause import Pause, ProbeRule, pause_again
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import LaneKey, LanePaused, LaneSpec
from mirror.model.identifiers import Epoch
from mirror.model.reasons import reason_of
from mirror.ports import Clock, CopyEngine
from mirror.worker.protocol import (
    ExpectLanes,
    ExtendLease,
    LaneNews,
    Message,
    MessageReader,
    ShareQuotas,
    Shutdown,
    StartLanes,
    StopLanes,
    WorkerAlive,
    WorkerReady,
    WorkerSetup,
    encode_message,
)
from mirror.worker.reports import WorkerReports

_WATCHDOG_SECONDS: Final = 60.0
_RENEWAL_SECONDS: Final = 5.0


class Watchdog:
    """Detects a hung main loop. Call `reset` in every iteration of the loop, and `stop` after the last.

    A process can have only one watchdog. The timer runs in a thread that does not need the interpreter, so an
    endless loop does not stop it. An expired watchdog writes the stack to standard error and ends the
    process.
    """

    def __init__(self, timeout_seconds: float = _WATCHDOG_SECONDS) -> None:
        self._timeout_seconds = timeout_seconds
        self._renew_at = 0.0

    def reset(self) -> None:
        """Reset the watchdog timer."""
        now = monotonic()
        if now >= self._renew_at:
            self._renew_at = now + min(_RENEWAL_SECONDS, self._timeout_seconds / 2)
            faulthandler.dump_traceback_later(self._timeout_seconds, exit=True)

    def stop(self) -> None:
        """Stop the watchdog timer."""
        faulthandler.cancel_dump_traceback_later()


_log = get_logger(__name__)
_STEP_SECONDS: Final = 0.01
_ORPHAN_DEADLINE_SECONDS: Final = 3.0
_ALIVE_SECONDS: Final = 1.0
"""Seconds between heartbeats to the control process."""
_ORDERS_SECONDS: Final = 0.1
_PROBES: Final = ProbeRule(first_seconds=5.0, longest_seconds=300.0)


class LeaseOver(SessionLost):
    """The lease of the instance has expired. The process must exit immediately."""


class Worker:
    """Runs one copy engine, controlled by messages from the control process.

    `control`: socket to the control process.
    """

    def __init__(
        self,
        control: socket.socket,
        engine: CopyEngine,
        reports: WorkerReports,
        clock: Clock,
        data_plane: str,
        step_seconds: float = _STEP_SECONDS,
        on_plan: Callable[[Epoch], None] = lambda _: None,
    ) -> None:
        self._control = control
        self._engine = engine
        self._reports = reports
        self._clock = clock
        self._data_plane = data_plane
        self._step_seconds = step_seconds
        self._on_plan = on_plan
        self._reader = MessageReader(_skipped)
        self._refused: dict[LaneKey, tuple[LaneSpec, Pause, float]] = {}
        """Lanes that could not start, with their pause and the due time of the retry (monotonic seconds)."""
        self._watchdog = Watchdog()
        self._deadline: float | None = None
        self._orders: deque[Message] = deque()
        """Received messages that are not processed yet, in order. Leases are not queued; they take effect at
        once."""
        self._lease_until = math.inf
        self._next_alive = 0.0

    def run(self) -> None:
        """Run until the control process sends Shutdown or dies. Raises LeaseOver."""
        try:
            self._run()
        finally:
            self._watchdog.stop()

    def _run(self) -> None:
        self._send(WorkerReady(self._data_plane))
        while self._deadline is None:
            self._watchdog.reset()
            self._receive()
            self._obey_some()
            self._check_lease()
            self._try_refused()
            events = self._engine.step(self._step_seconds)
            if events:
                self._send(LaneNews(tuple(events)))
            now = self._clock.monotonic()
            if now >= self._next_alive:
                self._next_alive = now + _ALIVE_SECONDS
                self._send(WorkerAlive())
            self._send(*self._reports.due(now))
        self._watchdog.stop()  # closing is limited by its own deadline
        self._send(*self._reports.closing())
        self._send(LaneNews(tuple(self._engine.close(self._deadline))))
        self._send(*self._reports.closed())

    def _receive(self) -> bool:
        """Read messages from the control process. Return whether any data arrived."""
        readable, _, _ = select.select([self._control], [], [], 0)
        data = self._control.recv(1 << 20) if readable else b""
        if not data:
            if readable:
                _log.warning("releasing all lanes", reason="the control process has ended")
                self._deadline = _ORPHAN_DEADLINE_SECONDS
            return False
        for message in self._reader.feed(data):
            if isinstance(message, ExtendLease):
                self._lease_until = message.until
            else:
                self._orders.append(message)
        return True

    def _obey_some(self) -> None:
        """Process received messages for a limited time, because a new lease may have arrived meanwhile."""
        until = self._clock.monotonic() + _ORDERS_SECONDS
        while self._orders:
            self._obey(self._orders.popleft())
            if self._clock.monotonic() >= until:
                return

    def _check_lease(self) -> None:
        """Raise LeaseOver if the lease has expired.

        First reads a newer lease that may have arrived during a long operation.
        """
        while self._clock.monotonic() >= self._lease_until:
            if not self._receive():
                raise LeaseOver("the control process has not extended the lease; writing has stopped")

    def _obey(self, message: Message) -> None:
        match message:
            case ExpectLanes(specs):
                self._expect(specs)
            case StartLanes(epoch, specs):
                self._on_plan(epoch)
                for spec in specs:
                    self._start(spec, None)
            case StopLanes(keys):
                for key in keys:
                    self._refused.pop(key, None)
                    self._engine.stop_lanes((key,))
            case ShareQuotas(shares):
                self._engine.share_quotas(dict(shares))
            case Shutdown(deadline):
                self._deadline = deadline
            case _:
                _log.error("unexpected message skipped", kind=type(message).__name__)

    def _expect(self, specs: Sequence[LaneSpec]) -> None:
        """Prepare lanes that will be started later. Failures are only logged; the start reports them
        again."""
        for spec in specs:
            try:
                self._engine.expect_lanes((spec,))
            except Exception as error:  # noqa: BLE001 - the bulkhead around one lane
                _log.warning("cannot prepare lane", **spec.key.log_fields, reason=reason_of(error))

    def _start(self, spec: LaneSpec, former: Pause | None) -> None:
        """Start a lane. If a lane cannot start, pause it, and retry with increasing delay."""
        self._refused.pop(spec.key, None)
        try:
            self._engine.start_lanes((spec,))
        except Exception as error:  # noqa: BLE001 - the bulkhead around one lane
            reason = reason_of(error)
            pause = pause_again(former, reason, self._clock.now_ms(), _PROBES)
            self._refused[spec.key] = spec, pause, self._clock.monotonic() + pause.delay_ms / 1000
            if former is None or former.reason != reason:
                trace = None if isinstance(error, HeadraceError) else error
                _log.error("cannot start lane", **spec.key.log_fields, reason=reason, exc_info=trace)
                self._send(LaneNews((LanePaused(spec.key, reason),)))

    def _try_refused(self) -> None:
        for spec, pause, due in tuple(self._refused.values()):
            if self._clock.monotonic() >= due:
                self._start(spec, pause)

    def _send(self, *messages: Message) -> None:
        try:
            for message in messages:
                self._control.sendall(encode_message(message))
        except (BrokenPipeError, ConnectionResetError):
            if self._deadline is None:
                self._deadline = _ORPHAN_DEADLINE_SECONDS


def _skipped(error: CorruptData) -> None:
    _log.error("invalid message from the control process skipped", reason=str(error))


def receive_setup(control: socket.socket) -> WorkerSetup | None:
    """Read the first message from the parent of a copy worker. Return None if the parent has ended."""
    length = control.recv(4, socket.MSG_WAITALL)
    body = control.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    for message in MessageReader().feed(length + body):
        assert isinstance(message, WorkerSetup), "expected WorkerSetup as the first message"
        return message
    return None
