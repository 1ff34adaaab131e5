"""Messages on their way to one worker.

They go in order, except that the newest lease goes before everything that waits and replaces older ones: a
worker that is sent many lanes keeps its lease meanwhile. A thread writes them as fast as the worker takes
them, so handing them over never waits.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Iterable

import structlog

from mirror.worker.protocol import ExtendLease, Message, Shutdown, encode_parts

_log = structlog.get_logger(__name__)


class MessageQueue:
    """Encoded messages that wait, in the order in which they go. Pure."""

    def __init__(self) -> None:
        self._lease: bytes | None = None
        self._waiting: deque[bytes] = deque()

    def __bool__(self) -> bool:
        return self._lease is not None or bool(self._waiting)

    def put(self, frames: Iterable[bytes]) -> None:
        """Add messages behind those that wait."""
        self._waiting += frames

    def put_lease(self, frame: bytes) -> None:
        """Add a lease, in place of one that waits."""
        self._lease = frame

    def put_last(self, frame: bytes) -> None:
        """Add the last message, in place of all that wait: nothing counts beside it."""
        self._lease = None
        self._waiting = deque([frame])

    def take(self) -> bytes:
        """Remove and return the message that goes next. Raises IndexError where none waits."""
        if self._lease is not None:
            frame, self._lease = self._lease, None
            return frame
        return self._waiting.popleft()


class ChannelWriter:
    """Writes to the channel of one worker, in a thread of its own."""

    def __init__(self, channel: socket.socket, number: int) -> None:
        self._channel = channel
        self._number = number
        self._outgoing = MessageQueue()
        self._changed = threading.Condition()
        self._is_closed = self._is_writing = False
        self._taken = 0
        self._thread = threading.Thread(target=self._write_all, name=f"worker-{number}-writer", daemon=True)

    def start(self) -> None:
        """Begin to write what is put."""
        self._thread.start()

    def put(self, message: Message) -> None:
        """Hand a message over; never waits. Raises InvalidRequest for a lane that is too large, and whatever
        encoding it raises; nothing is handed over then."""
        frames = encode_parts(message)
        with self._changed:
            if self._is_closed:
                return
            if isinstance(message, ExtendLease):
                self._outgoing.put_lease(frames[0])
            elif isinstance(message, Shutdown):
                self._outgoing.put_last(frames[0])
            else:
                self._outgoing.put(frames)
            self._changed.notify()

    @property
    def is_idle(self) -> bool:
        """Whether the worker has taken everything."""
        with self._changed:
            return not self._outgoing and not self._is_writing

    @property
    def taken(self) -> int | None:
        """Number of pieces that the worker has taken; None while it is sent nothing."""
        return None if self.is_idle else self._taken

    def close(self) -> None:
        """Write no more. A write under way ends when the channel is shut down."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _write_all(self) -> None:
        try:
            while (frame := self._next()) is not None:
                left = memoryview(frame)
                while left:
                    left = left[self._channel.send(left) :]
                    self._taken += 1
        except OSError:
            with self._changed:
                is_known, self._is_closed, self._is_writing = self._is_closed, True, False
                self._outgoing = MessageQueue()
            if not is_known:
                _log.warning("worker does not listen any more", worker=self._number)

    def _next(self) -> bytes | None:
        """The message to write; None at the end."""
        with self._changed:
            self._is_writing = False
            while not self._outgoing and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            self._is_writing = True
            return self._outgoing.take()
