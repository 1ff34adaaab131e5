"""The measured process: fetches a response, forwards its batches without copying, and fetches the next one
meanwhile.

`python -m bench.mirror.rig.loops.engines ENGINE SOURCE_PORT TARGET_PORT RESPONSE_BYTES COUNT` prints
`wall_seconds cpu_seconds resident_mib`. Each engine keeps one fetch and up to five produce requests in
flight, as the data plane does per broker, and sends no bytes that it has copied itself.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.mirror.rig.loops.peer import HEAD
from mirror.adapters.system_clock import SystemClock
from mirror.client.connection import Connection
from mirror.client.event_loop import Loop
from mirror.client.request import Request
from mirror.client.transport import Transport
from mirror.errors import HeadraceError
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.memory import BufferPool, ReceiveBuffer
from mirror.protocol.frame import LARGEST_FRAME

_IN_FLIGHT: Final = 5
_BATCH_BYTES: Final = 256 * 1024
_SIZE: Final = struct.Struct(">i")
_REQUEST_BYTES: Final = 40
_TIMEOUT_SECONDS: Final = 60.0

Send = Callable[[Sequence[memoryview | bytes], int], None]


class Traffic:
    """Remaining work: number of responses to fetch and of batches to be acknowledged."""

    def __init__(self, count: int) -> None:
        self.to_fetch = count
        self.to_acknowledge = count
        self.under_way = 0
        self.waiting: deque[Any] = deque()


def batches_of(view: memoryview) -> list[memoryview]:
    """Split the body of a response into batch-sized views."""
    return [view[start : start + _BATCH_BYTES] for start in range(0, len(view), _BATCH_BYTES)]


def connected(port: int) -> socket.socket:
    """Return a connected non-blocking socket."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock


class OwnLoop:
    """Event loop and connections of `mirror.client`."""

    def __init__(self, ports: tuple[int, int], response_bytes: int, count: int) -> None:
        self._traffic = Traffic(count)
        self._loop = Loop(SystemClock())
        pool = BufferPool(response_bytes, ByteBudget(response_bytes * (_IN_FLIGHT + 2)))
        self._source, self._target = (
            Connection(self._loop, Transport(connected(port)), pool, str(port), "bench") for port in ports
        )

    def run(self) -> None:
        """Copy everything."""
        self._fetch()
        while self._traffic.to_acknowledge:
            self._loop.run_once(1.0)

    def _request(
        self, body: Sequence[Any], size: int, on_answer: Callable[[memoryview, ReceiveBuffer], None]
    ) -> Request:
        values = (0, 0, False, body, size, _TIMEOUT_SECONDS, on_answer, self._failed)
        return Request(*values, most_bytes=LARGEST_FRAME)

    def _failed(self, error: HeadraceError) -> None:
        raise error

    def _fetch(self) -> None:
        if self._traffic.to_fetch:
            self._traffic.to_fetch -= 1
            body = bytes(_REQUEST_BYTES)
            self._source.send(self._request([body], len(body), self._fetched))

    def _fetched(self, body: memoryview, slab: ReceiveBuffer) -> None:
        slab.retain()
        self._traffic.waiting.append((body, slab))
        self._produce()
        self._fetch()

    def _produce(self) -> None:
        traffic = self._traffic
        while traffic.waiting and traffic.under_way < _IN_FLIGHT:
            body, slab = traffic.waiting.popleft()
            traffic.under_way += 1

            def acknowledged(_body: memoryview, _slab: ReceiveBuffer, mine: ReceiveBuffer = slab) -> None:
                mine.release()
                traffic.under_way -= 1
                traffic.to_acknowledge -= 1
                self._produce()

            self._target.send(self._request(batches_of(body), len(body), acknowledged))


class AsyncioFrames(asyncio.BufferedProtocol):
    """Kafka frames over asyncio, each received into an exactly sized buffer."""

    def __init__(self, on_frame: Callable[[memoryview], None]) -> None:
        self._on_frame = on_frame
        self._head = bytearray(4)
        self._frame: bytearray | None = None
        self._filled = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return memoryview(self._head if self._frame is None else self._frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on a complete frame."""
        self._filled += nbytes
        if self._frame is None:
            if self._filled == 4:
                self._frame, self._filled = bytearray(_SIZE.unpack(self._head)[0]), 0
        elif self._filled == len(self._frame):
            frame, self._frame, self._filled = self._frame, None, 0
            self._on_frame(memoryview(frame)[4:])


class AsyncioLoop:
    """asyncio with a buffered protocol: no copy when receiving, `writelines` to send."""

    def __init__(self, ports: tuple[int, int], _response_bytes: int, count: int) -> None:
        self._ports = ports
        self._traffic = Traffic(count)
        self._done = asyncio.Event()

    def run(self) -> None:
        """Copy everything."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._source, self._target = AsyncioFrames(self._fetched), AsyncioFrames(self._acknowledged)
        for protocol, port in zip((self._source, self._target), self._ports, strict=True):
            await loop.create_connection(lambda one=protocol: one, sock=connected(port))  # type: ignore[misc]
        self._fetch()
        await self._done.wait()

    def _fetch(self) -> None:
        if self._traffic.to_fetch:
            self._traffic.to_fetch -= 1
            self._send(self._source, [bytes(_REQUEST_BYTES)], _REQUEST_BYTES)

    def _send(self, to: AsyncioFrames, body: Sequence[bytes | memoryview], size: int) -> None:
        assert to.transport is not None
        to.transport.writelines([HEAD.pack(size + HEAD.size - 4, 0, 0, 0), *body])

    def _fetched(self, body: memoryview) -> None:
        self._traffic.waiting.append(body)
        self._produce()
        self._fetch()

    def _produce(self) -> None:
        traffic = self._traffic
        while traffic.waiting and traffic.under_way < _IN_FLIGHT:
            body = traffic.waiting.popleft()
            traffic.under_way += 1
            self._send(self._target, batches_of(body), len(body))

    def _acknowledged(self, _body: memoryview) -> None:
        self._traffic.under_way -= 1
        self._traffic.to_acknowledge -= 1
        if not self._traffic.to_acknowledge:
            self._done.set()
        self._produce()


class KafkaPythonFrames:
    """Kafka frames over kafka-python's transport, which passes on data as it arrives."""

    _sensors = None

    def __init__(self, on_frame: Callable[[memoryview], None]) -> None:
        self._on_frame = on_frame
        self._parts: list[bytes] = []
        self._have = 0
        self._wanted = 0

    def data_received(self, data: bytes) -> None:
        """Split received data into frames."""
        self._parts.append(data)
        self._have += len(data)
        while self._have >= max(self._wanted, 4):
            joined = b"".join(self._parts)
            if not self._wanted:
                self._wanted = 4 + _SIZE.unpack_from(joined)[0]
            self._parts = [joined]
            if self._have < self._wanted:
                return
            frame, rest = memoryview(joined)[8 : self._wanted], joined[self._wanted :]
            self._parts, self._have, self._wanted = [rest], len(rest), 0
            self._on_frame(frame)

    def connection_lost(self, error: Exception) -> None:
        """Raise the error: no connection is expected to close during the measurement."""
        raise error


class KafkaPythonLoop:
    """Event loop and transport of kafka-python (`kafka.net`)."""

    def __init__(self, ports: tuple[int, int], _response_bytes: int, count: int) -> None:
        from kafka.net.selector import NetworkSelector
        from kafka.net.transport import KafkaTCPTransport

        self._traffic = Traffic(count)
        self._net = NetworkSelector()
        self._transports = []
        for port, on_frame in zip(ports, (self._fetched, self._acknowledged), strict=True):
            transport = KafkaTCPTransport(self._net, connected(port))
            transport.set_protocol(KafkaPythonFrames(on_frame))
            transport.resume_reading()
            self._transports.append(transport)

    def run(self) -> None:
        """Copy everything."""
        self._fetch()
        while self._traffic.to_acknowledge:
            self._net.poll(timeout_ms=1000)

    def _fetch(self) -> None:
        if self._traffic.to_fetch:
            self._traffic.to_fetch -= 1
            self._send(0, [bytes(_REQUEST_BYTES)], _REQUEST_BYTES)

    def _send(self, to: int, body: Sequence[bytes | memoryview], size: int) -> None:
        self._transports[to].writelines([HEAD.pack(size + HEAD.size - 4, 0, 0, 0), *body])

    def _fetched(self, body: memoryview) -> None:
        self._traffic.waiting.append(body)
        self._produce()
        self._fetch()

    def _produce(self) -> None:
        traffic = self._traffic
        while traffic.waiting and traffic.under_way < _IN_FLIGHT:
            body = traffic.waiting.popleft()
            traffic.under_way += 1
            self._send(1, batches_of(body), len(body))

    def _acknowledged(self, _body: memoryview) -> None:
        self._traffic.under_way -= 1
        self._traffic.to_acknowledge -= 1
        self._produce()


ENGINES: Final[dict[str, Callable[[tuple[int, int], int, int], OwnLoop | AsyncioLoop | KafkaPythonLoop]]] = {
    "own": OwnLoop,
    "asyncio": AsyncioLoop,
    "kafka.net": KafkaPythonLoop,
}


def main(name: str, source: int, target: int, response_bytes: int, count: int) -> None:
    """Copy `count` responses, and print wall-clock seconds, CPU seconds and resident MiB."""
    engine = ENGINES[name]((source, target), response_bytes, count)
    began, cpu = time.perf_counter(), time.process_time()
    engine.run()
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main(sys.argv[1], *(int(argument) for argument in sys.argv[2:]))
