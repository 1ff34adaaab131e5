"""Channel between the control process and a worker: queue of outgoing messages, reader of incoming ones.

Messages are sent in order, except leases. A lease is sent before all waiting messages and replaces older
leases, so that the lease of a worker does not expire while many lanes are sent to it. Separate threads write
to the channel and read from it, so callers never block.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from mirror.errors import CorruptData
from mirror.loggers import get_logger
from mirror.worker.protocol import ExtendLease, Message, MessageReader, Shutdown, WorkerAlive, encode_parts

_log = get_logger(__name__)


class MessageQueue:
    """Queue of encoded messages to a worker. Pure."""

    def __init__(self) -> None:
        self._lease: bytes | None = None
        self._waiting: deque[bytes] = deque()

    def __bool__(self) -> bool:
        return self._lease is not None or bool(self._waiting)

    def put(self, frames: Iterable[bytes]) -> None:
        """Append messages to the queue."""
        self._waiting += frames

    def put_lease(self, frame: bytes) -> None:
        """Queue a lease in front of all messages. Drop a lease that is still queued."""
        self._lease = frame

    def put_last(self, frame: bytes) -> None:
        """Replace all queued messages by a final message."""
        self._lease = None
        self._waiting = deque([frame])

    def take(self) -> bytes:
        """Remove and return the next message. Raises IndexError if the queue is empty."""
        if self._lease is not None:
            frame, self._lease = self._lease, None
            return frame
        return self._waiting.popleft()


class ChannelWriter:
    """Writes messages to the channel of one worker on a separate thread."""

    def __init__(self, channel: socket.socket, number: int) -> None:
        self._channel = channel
        self._number = number
        self._outgoing = MessageQueue()
        self._changed = threading.Condition()
        self._is_closed = self._is_writing = False
        self._taken = 0
        self._thread = threading.Thread(target=self._write_all, name=f"worker-{number}-writer", daemon=True)

    def start(self) -> None:
        """Start the writer thread."""
        self._thread.start()

    def put(self, message: Message) -> None:
        """Queue a message to the worker. Never blocks.

        Raises InvalidRequest for a lane that is too large, and encoding errors. A failed call queues nothing.
        """
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
        """True if the worker has read all messages."""
        with self._changed:
            return not self._outgoing and not self._is_writing

    @property
    def taken(self) -> int | None:
        """Number of chunks of the pending messages that the worker has read. None if no message is
        pending."""
        return None if self.is_idle else self._taken

    def close(self) -> None:
        """Stop the writer thread without waiting for it.

        A write in progress ends when the channel is shut down.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def join(self) -> None:
        """Wait until the writer thread has ended."""
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
                _log.warning("worker no longer reads its messages", worker=self._number)

    def _next(self) -> bytes | None:
        """Return the next message to write, or None when the channel is closed."""
        with self._changed:
            self._is_writing = False
            while not self._outgoing and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            self._is_writing = True
            return self._outgoing.take()


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """Inbox item of the control process: a message from a worker."""

    worker: int
    generation: int
    message: Message


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """Inbox item of the control process: a worker has closed its channel."""

    worker: int
    generation: int


@dataclass(slots=True)
class ReaderHeartbeat:
    """Counter of the data received from a worker, updated only by its reader thread.

    `beats`: number of reads from the worker.
    """

    beats: int = 0


def read_worker(
    channel: socket.socket,
    number: int,
    generation: int,
    inbox: queue.SimpleQueue[object],
    pulse: ReaderHeartbeat,
) -> None:
    """Read messages from a worker until it closes the channel. Runs in a separate thread."""
    has_spoken = False

    def skipped(error: CorruptData) -> None:
        if not has_spoken:
            raise error  # an invalid first message means that no message can be decoded
        _log.error("invalid message from worker skipped", worker=number, reason=str(error))

    reader = MessageReader(skipped)
    try:
        while data := channel.recv(1 << 20):
            pulse.beats += 1
            for message in reader.feed(data):
                has_spoken = True
                if not isinstance(message, WorkerAlive):
                    inbox.put(WorkerMessage(number, generation, message))
    except OSError:
        _log.debug("worker channel closed", worker=number)
    except CorruptData as error:
        _log.error("malformed message from worker", worker=number, reason=str(error))
    inbox.put(WorkerGone(number, generation))
