"""What worker processes say, put into the inbox of the follower's thread."""

from __future__ import annotations

import queue
import socket
from dataclasses import dataclass

import structlog

from mirror.errors import CorruptData
from mirror.worker.protocol import Message, MessageReader, WorkerAlive

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSaid:
    """Inbox item."""

    worker: int
    generation: int
    message: Message


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """Inbox item."""

    worker: int
    generation: int


@dataclass(slots=True)
class Pulse:
    """`beats`: how often something of a worker was read. Written by its reader thread alone."""

    beats: int = 0


def read_worker(
    channel: socket.socket, number: int, generation: int, inbox: queue.SimpleQueue[object], pulse: Pulse
) -> None:
    """Run in a thread of its own, until the worker closes its end of the channel."""
    has_spoken = False

    def skipped(error: CorruptData) -> None:
        if not has_spoken:
            raise error  # nothing that it says can be understood
        _log.error("message of a worker skipped", worker=number, reason=str(error))

    reader = MessageReader(skipped)
    try:
        while data := channel.recv(1 << 20):
            pulse.beats += 1
            for message in reader.feed(data):
                has_spoken = True
                if not isinstance(message, WorkerAlive):
                    inbox.put(WorkerSaid(number, generation, message))
    except OSError:
        _log.debug("channel closed", worker=number)
    except CorruptData as error:
        _log.error("worker says what is no message", worker=number, reason=str(error))
    inbox.put(WorkerGone(number, generation))
