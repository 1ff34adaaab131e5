"""Sockets of a fake cluster, handling one request at a time on each connection, as Kafka does.

Nothing here blocks: `poll` does what is due, so that a test can call it from the thread and with the clock of
the code under test (`virtual`), or leave it to a separate thread (`cluster`).
"""

from __future__ import annotations

import selectors
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from tests.fakes.broker.faults import Announce, Cut, Delay, Drop, Edit, HandledRequest, Hold, Run, Throttle
from tests.fakes.broker.handlers import table
from tests.fakes.broker.handlers.entry import NO_ANSWER
from tests.fakes.broker.memory import MemorySelector, MemorySocket, Network
from tests.fakes.broker.state import Broker, ClusterState

_FETCH: Final = 1
_READ_BYTES: Final = 256 * 1024
_SIZE: Final = struct.Struct(">i")
_START: Final = struct.Struct(">hhi")
_UNSUPPORTED: Final = 35


class Peer:
    """Connection of one client to one broker."""

    def __init__(self, server: Server, broker: Broker, sock: socket.socket) -> None:
        self.broker = broker
        self._server = server
        self._socket = sock
        self._received = bytearray()
        self._frames: deque[bytes] = deque()
        self._unsent = bytearray()
        self._under_way: HandledRequest | None = None
        self._correlation = 0
        self._is_ending = False
        self.is_closed = False

    @property
    def under_way(self) -> HandledRequest | None:
        """Request that is being handled, if its client is still connected."""
        is_left = isinstance(self._socket, MemorySocket) and self._socket.is_ended
        return None if self.is_closed or is_left else self._under_way

    @property
    def has_part(self) -> bool:
        """Return whether a part of a request has arrived."""
        return bool(self._received)

    def close(self) -> None:
        """Close the socket. Idempotent."""
        if not self.is_closed:
            self.is_closed = True
            self._server.release(self, self._socket)
            self._socket.close()

    def on_ready(self, events: int) -> None:
        """Read from or write to the ready socket."""
        try:
            if events & selectors.EVENT_WRITE:
                self._flush()
            if events & selectors.EVENT_READ and not self.is_closed and not self.broker.is_frozen:
                self._receive()
        except OSError:
            self.close()

    def _receive(self) -> None:
        data = self._socket.recv(_READ_BYTES)
        if not data:
            self.close()
            return
        self._received += data
        while len(self._received) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._received)
            if len(self._received) < _SIZE.size + size:
                break
            self._frames.append(bytes(self._received[_SIZE.size : _SIZE.size + size]))
            del self._received[: _SIZE.size + size]
        self._begin_next()

    def _begin_next(self) -> None:
        while self._frames and self._under_way is None and not self.is_closed and not self._is_ending:
            self._begin(self._frames.popleft())

    def _begin(self, frame: bytes) -> None:
        api, version, self._correlation = _START.unpack_from(frame)
        handler = table.HANDLERS.get(api)
        state = self._server.state
        if handler is None or not handler.versions[0] <= version <= self._server.newest(api):
            if api == table.API_VERSIONS:
                asked = HandledRequest(self.broker.node, api, 0, "", None, self)
                self._reply(asked, table.HANDLERS[api].response(error_code=_UNSUPPORTED))
                return
            self._server.refused.append((api, version))
            self.close()
            return
        message = handler.request.decode(frame, version=version, header=True)
        client = message.header.client_id or ""
        asked = HandledRequest(self.broker.node, api, version, client, message, self)
        self._server.requests.append(asked)
        state.faults.take(asked)
        self._under_way = asked
        before, after = state.pace() if state.pace is not None else (0.0, 0.0)
        asked.return_seconds = after
        for fault in asked.faults:
            if isinstance(fault, Run):
                fault.action()
            elif isinstance(fault, Drop) and not fault.applied:
                self.close()
                return
            elif isinstance(fault, Delay) and not fault.applied:
                before += fault.seconds
            elif isinstance(fault, Hold) and not fault.applied and not fault.gate.is_open:
                self._server.wait_for(fault.gate, lambda: self._treat(asked))
                return
        if before:
            state.later(before, lambda: self._treat(asked))
        else:
            self._treat(asked)

    def _treat(self, asked: HandledRequest) -> None:
        """Handle the request, even if the client has disconnected: brokers do not check."""
        if self.broker.is_down:
            return
        answer = table.HANDLERS[asked.api].handle(self._server.state, asked)
        if answer is None:
            if not self.is_closed:
                self._server.park(lambda: self._treat(asked), asked)
            return
        self._server.changed()
        seconds = asked.return_seconds
        for fault in asked.faults:
            if isinstance(fault, Drop):
                self.close()
                return
            if isinstance(fault, Delay) and fault.applied:
                seconds += fault.seconds
            if isinstance(fault, Hold) and fault.applied and not fault.gate.is_open:
                self._server.wait_for(fault.gate, lambda: self._answer(asked, answer))
                return
        if seconds:
            self._server.state.later(seconds, lambda: self._answer(asked, answer))
        else:
            self._answer(asked, answer)

    def _answer(self, asked: HandledRequest, answer: Any) -> None:
        if self.is_closed:
            return
        for fault in asked.faults:
            if isinstance(fault, Throttle):
                answer.throttle_time_ms = fault.milliseconds
                if asked.api == _FETCH:
                    answer.responses = []  # a throttled fetch returns no records
            elif isinstance(fault, Edit):
                fault.change(answer)
        self._under_way = None
        if answer is not NO_ANSWER:
            self._reply(asked, answer)
        self._begin_next()

    def _reply(self, asked: HandledRequest, answer: Any) -> None:
        answer.API_VERSION = asked.version
        answer.with_header(correlation_id=self._correlation)
        frame = answer.encode(header=True, framed=True)
        for fault in asked.faults:
            if isinstance(fault, Cut):
                frame = frame[: fault.keep]
                self._is_ending = True
            elif isinstance(fault, Announce):
                frame = _SIZE.pack(fault.size) + frame[_SIZE.size : 2 * _SIZE.size]
                self._trickle(fault)
        self._unsent += frame
        self._flush()

    def _trickle(self, fault: Announce) -> None:
        if fault.seconds is not None:
            self._server.state.later(fault.seconds, lambda: self._send_one_byte(fault))

    def _send_one_byte(self, fault: Announce) -> None:
        if not self.is_closed:
            self._unsent += b"\x00"
            self._flush()
            self._trickle(fault)

    def _flush(self) -> None:
        if self.is_closed:
            return
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if self._is_ending and not self._unsent:
            self.close()
            return
        self._server.watch(self._socket, self, writes=bool(self._unsent))


class Server:
    """Listeners and connections of all brokers of a cluster, on system sockets or in a network in memory."""

    def __init__(self, state: ClusterState, network: Network | None = None) -> None:
        self.state = state
        self.requests: list[HandledRequest] = []
        """Every decoded request, in order of arrival."""
        self.refused: list[tuple[int, int]] = []
        """(api key, version) of unsupported requests, which closed their connection."""
        self._network = network
        self._selector = MemorySelector() if network else selectors.DefaultSelector()
        self._listeners: dict[int, socket.socket] = {}
        self._peers: dict[Peer, None] = {}
        self._parked: list[tuple[Callable[[], None], HandledRequest]] = []
        self._parked_until: float | None = None
        self._gated: list[tuple[Any, Callable[[], None]]] = []
        self._has_changed = False
        self._waker, self._wakee = socket.socketpair()
        self._wakee.setblocking(False)
        self._selector.register(self._wakee, selectors.EVENT_READ, None)

    def newest(self, api: int) -> int:
        """Return the highest version of a request that the brokers support."""
        return self.state.newest_versions.get(api, table.HANDLERS[api].versions[1])

    def under_way(self) -> list[HandledRequest]:
        """Return the requests that are being handled for connected clients."""
        return [request for peer in self._peers if (request := peer.under_way) is not None]

    def listen(self, node: int, rack: str | None) -> Broker:
        """Start a broker on a free port of the loopback interface."""
        if self._network is not None:
            sock, port = self._network.listen()
        else:
            sock = socket.create_server(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        sock.setblocking(False)
        self._listeners[node] = sock
        self._selector.register(sock, selectors.EVENT_READ, node)
        broker = Broker(node, port, rack)
        self.state.brokers[node] = broker
        return broker

    def drop_connections(self, node: int) -> None:
        """Close every connection to a broker."""
        for peer in [peer for peer in self._peers if peer.broker.node == node]:
            peer.close()

    def changed(self) -> None:
        """Retry parked requests at the next poll."""
        self._has_changed = True

    def park(self, again: Callable[[], None], asked: HandledRequest) -> None:
        """Call the handler again after a change, or after the request's deadline."""
        self._parked.append((again, asked))
        if asked.until is not None:
            self._parked_until = min(asked.until, self._parked_until or asked.until)

    def wait_for(self, gate: Any, action: Callable[[], None]) -> None:
        """Run an action once the gate is open."""
        self._gated.append((gate, action))

    def wait(self, most: float) -> None:
        """Wait until data arrives, work is due, or `most` seconds have passed."""
        self._selector.select(self.patience(most))

    def patience(self, most: float) -> float:
        """Return the seconds, at most `most`, until work is due even if no data arrives."""
        if self._has_changed and self._parked:
            return 0.0
        due = self.next_due
        return most if due is None else min(most, max(due - self.state.clock.monotonic(), 0.0))

    def poll(self) -> bool:
        """Do everything that is due; return whether there was anything."""
        is_busy = self.state.run_timers()
        self._has_changed = self._has_changed or is_busy
        is_busy |= self._run_gated()
        is_busy |= self._run_parked()
        for key, events in self._selector.select(0.0):
            is_busy = True
            if key.fileobj is self._wakee:
                self._wakee.recv(4096)
            elif isinstance(key.data, Peer):
                if not key.data.is_closed:
                    key.data.on_ready(events)
            else:
                self._accept(key.data)
        return is_busy

    @property
    def next_due(self) -> float | None:
        """Time at which `poll` has work even if no data arrives."""
        timer, parked = self.state.next_timer, self._parked_until
        if timer is None or parked is None:
            return parked if timer is None else timer
        return min(timer, parked)

    @property
    def has_work(self) -> bool:
        """Return whether `poll` may have work now, without checking system sockets."""
        if self._has_changed and self._parked:
            return True
        if isinstance(self._selector, MemorySelector) and self._selector.stirred:
            return True
        due = self.next_due
        if due is not None and due <= self.state.clock.monotonic():
            return True
        return any(gate.is_open for gate, _ in self._gated)

    def wake(self) -> None:
        """Interrupt a `wait` from another thread."""
        with suppress(BlockingIOError):
            self._waker.send(b"\x00")

    def watch(self, sock: socket.socket, peer: Peer, *, writes: bool) -> None:
        """Watch a connection for reads, and optionally writes; frozen brokers do not read."""
        events = selectors.EVENT_WRITE if writes else 0
        if not peer.broker.is_frozen:
            events |= selectors.EVENT_READ
        known = sock.fileno() in self._selector.get_map()
        if events and known:
            self._selector.modify(sock, events, peer)
        elif events:
            self._selector.register(sock, events, peer)
        elif known:
            self._selector.unregister(sock)

    def release(self, peer: Peer, sock: socket.socket) -> None:
        """Drop a connection."""
        self._peers.pop(peer, None)
        if sock.fileno() in self._selector.get_map():
            self._selector.unregister(sock)

    def set_frozen(self, node: int, *, frozen: bool) -> None:
        """Stop a broker from reading, or let it resume."""
        self.state.brokers[node].is_frozen = frozen
        for peer in self._peers:
            if peer.broker.node == node:
                peer.on_ready(selectors.EVENT_WRITE)

    def close(self) -> None:
        """Close every socket."""
        for peer in list(self._peers):
            peer.close()
        for sock in (*self._listeners.values(), self._waker, self._wakee):
            sock.close()
        self._selector.close()

    def _accept(self, node: int) -> None:
        with suppress(BlockingIOError):
            sock, _ = self._listeners[node].accept()
            if self.state.brokers[node].is_down:
                sock.close()
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(self, self.state.brokers[node], sock)
            self._peers[peer] = None
            self.watch(sock, peer, writes=False)

    def _run_gated(self) -> bool:
        if not self._gated:
            return False
        ready = [action for gate, action in self._gated if gate.is_open]
        self._gated = [one for one in self._gated if not one[0].is_open]
        for action in ready:
            action()
        return bool(ready)

    def _run_parked(self) -> bool:
        if not self._parked:
            return False
        due = self._parked_until
        if not self._has_changed and (due is None or due > self.state.clock.monotonic()):
            return False
        self._has_changed = False
        parked, self._parked, self._parked_until = self._parked, [], None
        for again, _ in parked:
            again()
        return len(self._parked) != len(parked)
