"""Connection to one broker, with pipelined requests.

If free memory is too small for a response, the client stops reading from the socket, and the broker stops
sending. The connection is closed if a response stalls or exceeds the limit of its request. Brokers process
only complete requests, so the last bytes of a request may be sent later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Final

from mirror.client.event_loop import READ, WRITE, Loop
from mirror.client.frame_reader import FrameReader
from mirror.client.promptness import PATIENCE_SECONDS, SLOWEST_LINK, Promptness
from mirror.client.request import API_VERSIONS, Request, unusable_response
from mirror.client.transport import MOST_BUFFERS, Buffer, Transport
from mirror.errors import CorruptData, HeadraceError, ResponseStalled, TimedOut, Unreachable
from mirror.lane.flow import HeldTime
from mirror.lane.memory import BufferPool, ReceiveBuffer
from mirror.loggers import get_logger
from mirror.protocol.control.cluster import BrokerFeatures
from mirror.protocol.frame import correlation_of, request_head, response_body

_log = get_logger(__name__)
FAR_SECONDS: Final = 0.002
"""Round trip in seconds from which on a broker is distant. Within a data centre, it is about 0.2 ms."""
_MOST_READS: Final = 64
"""Maximum number of reads from one socket before other sockets are served."""
_STALLED_SECONDS: Final = 10.0
"""Seconds without progress after which a partial response fails."""


class Connection:
    """Connection to one broker, and its outstanding requests. `name`: name in error messages. `features`: set
    by `handshake.open_connection`. `cluster_throttling`: throttle times of all connections of the cluster."""

    def __init__(
        self,
        loop: Loop,
        transport: Transport,
        pool: BufferPool,
        name: str,
        client_id: str,
        cluster_throttling: HeldTime | None = None,
    ) -> None:
        self.name = name
        self.features = BrokerFeatures(0, {}, {})
        self.throttled_until = 0.0
        self.throttling = HeldTime()
        self._cluster_throttling = cluster_throttling or HeldTime()
        self.promptness = Promptness()
        self.failure: HeadraceError | None = None
        self._on_close: Callable[[HeadraceError], None] | None = None
        self.loop = loop
        self.transport = transport
        self.reader = FrameReader(transport, pool, loop, name)
        self._client_id = client_id.encode()
        self._pending: deque[tuple[int, float, Request]] = deque()
        self._unsent: deque[Buffer] = deque()
        self._correlation = 0
        self._memory_since: float | None = None
        self._held: list[Request] | None = None
        loop.watch(transport.socket, READ, self._on_ready)

    @property
    def is_open(self) -> bool:
        """Return whether requests can be sent on the connection."""
        return self.failure is None

    def version_of(self, api: int, ours: tuple[int, int]) -> int:
        """Return the highest common version of an API, or -1 if there is none."""
        lowest, highest = self.features.versions.get(api, (0, -1))
        version = min(ours[1], highest)
        return version if version >= max(ours[0], lowest) else -1

    def send(self, request: Request, *, urgent: bool = False) -> None:
        """Send a request. Its body must not change until the response arrives. `urgent`: send it even while
        other requests are held."""
        if self.failure is not None:
            request.on_failure(self.failure)
            return
        if self._held is not None and not urgent:
            self._held.append(request)
            return
        assert not self.is_incomplete, "a request inside another one"
        self._correlation = correlation = (self._correlation + 1) & 0x7FFFFFFF
        start = request_head(
            request.api,
            request.version,
            correlation,
            self._client_id,
            request.size,
            flexible=request.flexible,
        )
        read_at = max(self.loop.now(), self.throttled_until)
        since = inf if request.is_incomplete else read_at + (request.wait_seconds or 0.0)
        self._pending.append((correlation, since, request))
        was_idle = not self._unsent
        self._unsent.append(start)
        self._unsent.extend(request.body)
        if was_idle:
            self._write()
            if self._unsent:
                self._watch()

    def complete(self, request: Request, end: Sequence[Buffer]) -> None:
        """Send the rest of an incompletely sent request, which must be the last one on the connection."""
        request.is_incomplete = False
        if not self.is_incomplete or self._pending[-1][2] is not request:
            request.body = [*request.body, *end]  # the request waits for an authentication
            return
        read_at = max(self.loop.now(), self.throttled_until)
        self._pending[-1] = (self._pending[-1][0], read_at, request)
        self._unsent.extend(end)
        self._write()
        if self._unsent:
            self._watch()

    @property
    def is_incomplete(self) -> bool:
        """Return whether the last request is incomplete, so that no other request may be sent."""
        return bool(self._pending) and self._pending[-1][1] == inf

    def throttle(self, milliseconds: int) -> None:
        """Pause sending for the throttle time in a response (KIP-219): the broker reads no requests."""
        if milliseconds > 0:
            now = self.loop.now()
            self.throttled_until = max(self.throttled_until, now + milliseconds / 1000)
            for held in (self.throttling, self._cluster_throttling):
                held.hold(now, self.throttled_until)
            self._put_off(lambda since: max(since, self.throttled_until))

    def _put_off(self, later: Callable[[float], float]) -> None:
        """Shift the due times of outstanding responses after a delay that the broker did not cause."""
        self._pending = deque((number, later(since), request) for number, since, request in self._pending)

    def hold(self) -> None:
        """Queue requests until `release`, because they must not interrupt an authentication."""
        self._held = []

    def release(self) -> None:
        """Send the requests that were queued since `hold`."""
        held, self._held = self._held or [], None
        for request in held:
            self.send(request)

    @property
    def unanswered_since(self) -> float:
        """Due time of the oldest outstanding response, including its transfer time (monotonic seconds). The
        value is infinity if no response is outstanding, or if this client lacks memory for one."""
        if self._pending and self._memory_since is None:
            return self._pending[0][1] + self.reader.partial_bytes / SLOWEST_LINK
        return inf

    @property
    def lacks_memory(self) -> bool:
        """Return whether this client has no buffer memory to receive the next response."""
        return self._memory_since is not None

    def round_trip(self) -> float:
        """Return the shortest round trip to the broker in seconds, or 0 if unknown."""
        return self.transport.tcp_info().round_trip if self.failure is None else 0.0

    def silence(self, now: float) -> tuple[float, str]:
        """Return when the broker's response became late, and a description. Infinity means not late."""
        return self.promptness.silence(self.unanswered_since, now)

    def is_overdue(self, now: float) -> bool:
        """Return whether the next response is much later than expected. A second connection then shows
        whether the broker or only this connection is silent."""
        if not self._pending:
            return False
        request, since = self._pending[0][2], self.unanswered_since
        if request.wait_seconds is None and request.replication_seconds is None:
            return now - since >= PATIENCE_SECONDS and self.transport.tcp_info().retransmits > 1
        return self.promptness.is_overdue(request, since, self.reader.received_at, now)

    def check_deadline(self, now: float) -> None:
        """Close the connection if its oldest request has timed out or a response has stalled."""
        reader = self.reader
        if reader.is_partial and self._memory_since is None:
            self._on_ready(READ)  # the kernel does not report fewer bytes than the low-water mark
        if self._pending and self._memory_since is None:
            _, since, request = self._pending[0]
            if request.replication_seconds is not None:
                self.promptness.accepted(self.transport.tcp_info().acked_bytes, now)
            is_late = now > since + request.timeout_seconds
            if reader.is_partial and (is_late or now > reader.received_at + _STALLED_SECONDS):
                got, size = reader.filled, reader.partial_bytes
                self.close(ResponseStalled(f"{self.name} stalled after {got} of {size} bytes of a response"))
            elif is_late:
                self.close(TimedOut(f"{self.name} did not respond in time"))

    def close(self, error: HeadraceError | None = None) -> None:
        """Close the socket, and fail all outstanding requests with the error. Idempotent."""
        if self.failure is not None:
            return
        self.failure = error or Unreachable(f"the connection to {self.name} was closed")
        self.loop.unwatch(self.transport.socket)
        self.transport.close()
        self._unsent.clear()
        self.reader.close()
        pending, self._pending = self._pending, deque()
        for _, _, request in pending:
            request.on_failure(self.failure)
        self.release()
        if self._on_close is not None:
            self._on_close(self.failure)

    def when_closed(self, callback: Callable[[HeadraceError], None]) -> None:
        """Call `callback` with the error when the connection closes, or at once if it is closed."""
        self._on_close = callback
        if self.failure is not None:
            callback(self.failure)

    def _on_ready(self, events: int) -> None:
        try:
            if events & WRITE and self.failure is None:
                now = self.loop.now()
                self._put_off(lambda since: max(since, now))  # slow network: the broker receives data
                self._write()
                if not self._unsent:
                    self._watch()
            if events & READ and self.failure is None:
                self._read()
        except OSError as error:
            self.close(self.transport.broken(self.name, error))
        except CorruptData as error:
            self.close(error)
        except Exception as error:  # noqa: BLE001 - the other connections continue
            _log.exception("cannot process a response", address=self.name)
            self.close(unusable_response(self.name, error))

    def _write(self) -> None:
        unsent = self._unsent
        while unsent:
            try:
                sent = self.transport.send(list(islice(unsent, MOST_BUFFERS)))
            except OSError as error:
                self.loop.call_soon(partial(self.close, self.transport.broken(self.name, error)))
                return
            if not sent:
                break
            while sent:
                first = len(unsent[0])
                if sent >= first:
                    sent -= first
                    unsent.popleft()
                else:
                    unsent[0] = memoryview(unsent[0])[sent:]
                    sent = 0

    def _watch(self) -> None:
        events = (0 if self._memory_since is not None else READ) | (WRITE if self._unsent else 0)
        if events:
            self.loop.watch(self.transport.socket, events, self._on_ready)
        else:
            self.loop.unwatch(self.transport.socket)

    def _read(self) -> None:
        reader = self.reader
        if not self._take_frames():
            return
        for _ in range(_MOST_READS):
            received = reader.receive()
            if received is None:
                break
            if received == 0:
                self.close(Unreachable(f"{self.name} closed the connection"))
                return
            if not self._take_frames():
                return
            if reader.is_drained:
                break
        else:
            if self.transport.has_received:
                self.loop.call_soon(partial(self._on_ready, READ))
        reader.expect()

    def _take_frames(self) -> bool:
        """Process the complete responses received. Return False if reading must pause or has ended."""
        while True:
            found = self.reader.next(self._pending[0][2].most_bytes if self._pending else -1)
            if found is None:
                break
            self._dispatch(found[0], found[1])
            if self.failure is not None:
                return False
        if not self.reader.wanted:
            return True
        if self._memory_since is None:
            self._memory_since = self.loop.now()
        self._watch()
        self.reader.when_free(lambda: self.loop.call_soon(self._memory_is_free))
        return False

    def _memory_is_free(self) -> None:
        began, self._memory_since = self._memory_since, None
        if began is not None:
            waited = self.loop.now() - began
            self._put_off(lambda since: since + waited)
        if self.failure is None:
            self._watch()
            self._on_ready(READ)

    def _dispatch(self, frame: memoryview, slab: ReceiveBuffer) -> None:
        if not self._pending or self._pending[0][0] != correlation_of(frame):
            slab.release()
            raise CorruptData(f"unexpected correlation id from {self.name}")
        _, since, request = self._pending.popleft()
        if request.wait_seconds is not None:
            self.promptness.answered(since, self.loop.now(), len(frame))
        elif self.promptness.patience > PATIENCE_SECONDS:
            late = request.replication_seconds
            self.promptness.replicated(0.0 if late is None else self.loop.now() - since - late)
        try:
            flexible = request.flexible and request.api != API_VERSIONS
            request.on_answer(response_body(frame, flexible=flexible), slab)
        except CorruptData as error:
            request.on_failure(error)
            raise
        except Exception as error:
            request.on_failure(unusable_response(self.name, error))
            raise
        finally:
            slab.release()
