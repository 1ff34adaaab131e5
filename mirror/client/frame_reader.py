"""Assembles responses from the bytes received on a socket, in receive buffers.

Small responses arrive in a buffer of the connection and are copied; a response that is not complete yet is
received directly into its own buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mirror.client.event_loop import Loop
from mirror.client.transport import Transport
from mirror.errors import CorruptData, ResponseTooLarge
from mirror.lane.memory import BufferPool, ReceiveBuffer
from mirror.protocol.frame import SIZE_BYTES, frame_size

_SCRATCH_BYTES: Final = 64 * 1024


class FrameReader:
    """Assembles the responses of one connection, in order. `name`: name of the connection for error messages.

    `received_at`: time of the last received bytes (monotonic seconds). `wanted`: size of the next response if
    there is no memory for it, otherwise 0. `filled`: number of bytes received of a partial response.
    `is_drained`: the last call of `receive` has received everything that was available.
    """

    __slots__ = (
        "_expected",
        "_frame",
        "_loop",
        "_name",
        "_pool",
        "_position",
        "_scratch",
        "_slab",
        "_transport",
        "filled",
        "is_drained",
        "received_at",
        "wanted",
    )

    def __init__(self, transport: Transport, pool: BufferPool, loop: Loop, name: str) -> None:
        self._transport = transport
        self._pool = pool
        self._loop = loop
        self._name = name
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._position = 0
        """Start of the next response in `_scratch`."""
        self._frame = memoryview(b"")
        self._slab: ReceiveBuffer | None = None
        """Partial response, and its buffer."""
        self._expected = 1
        self.is_drained = False
        self.filled = 0
        self.received_at = 0.0
        self.wanted = 0

    @property
    def is_partial(self) -> bool:
        """True if part of a response has arrived."""
        return self._slab is not None

    @property
    def partial_bytes(self) -> int:
        """Bytes in the partial response, 0 if there is none."""
        return len(self._frame)

    def receive(self) -> int | None:
        """Receive bytes from the socket and return their number: 0 at the end of the stream, None if none are
        available. Raises OSError."""
        window = (memoryview(self._scratch) if self._slab is None else self._frame)[self.filled :]
        received = self._transport.receive_into(window)
        if received:
            self.filled += received
            self.received_at = self._loop.now()
            self.is_drained = received < len(window)
        return received

    def next(self, most_bytes: int) -> tuple[memoryview, ReceiveBuffer] | None:
        """Return the next complete response, which the caller must release. Return None without a complete
        response, or without memory for it; then `wanted` is its size.

        `most_bytes`: limit on its size, -1 if no response is expected. Raises CorruptData, ResponseTooLarge.
        """
        if self._slab is not None:
            if self.filled < len(self._frame):
                return None
            frame, slab = self._frame, self._slab
            self._frame, self._slab, self.filled = memoryview(b""), None, 0
            return frame, slab
        self.wanted = 0
        start = self._position + SIZE_BYTES
        if start > self.filled:
            self._compact()
            return None
        size = self._announced(most_bytes)
        found = self._pool.slab(size)
        if found is None:
            self._compact()
            self.wanted = size
            return None
        found.began_at = self._loop.now()
        frame = memoryview(found.buffer)[:size]
        here = min(self.filled - start, size)
        frame[:here] = memoryview(self._scratch)[start : start + here]
        if here < size:
            self._slab, self._frame, self.filled, self._position = found, frame, here, 0
            return None
        self._position = start + size
        return frame, found

    def _announced(self, most_bytes: int) -> int:
        size = frame_size(memoryview(self._scratch)[self._position : self._position + SIZE_BYTES], self._name)
        if most_bytes < 0:
            raise CorruptData(f"unexpected response from {self._name}: no request is outstanding")
        if size > most_bytes:
            raise ResponseTooLarge(
                f"{self._name} announced a response larger than the {most_bytes} bytes that the request"
                " allows",
                advice="check that broker; mirror.copying.largest_batch_bytes limits the response size",
            )
        return size

    def _compact(self) -> None:
        """Move the rest of the received bytes to the start of the buffer."""
        position, self._position = self._position, 0
        rest = self.filled - position
        if position and rest:
            self._scratch[:rest] = self._scratch[position : self.filled]
        self.filled = rest

    def when_free(self, callback: Callable[[], None]) -> None:
        """Call `callback` once there may be buffer memory for the next response."""
        self._pool.when_free(self.wanted, callback)

    def expect(self) -> None:
        """Set the socket's low-water mark to the rest of the response. The event loop then wakes only for the
        complete response or a full receive buffer, which saves iterations."""
        expected = 1 if self._slab is None else len(self._frame) - self.filled
        if expected != self._expected:
            self._expected = expected
            self._transport.expect(expected)

    def close(self) -> None:
        """Release the buffers now: a timer may keep a reference to the connection for hours."""
        self._frame, self._scratch = memoryview(b""), bytearray()
        if self._slab is not None:
            self._slab.release()
            self._slab = None
