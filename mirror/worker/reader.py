"""Reads messages of worker processes in threads, and puts them into the inbox."""

from __future__ import annotations

import queue
import socket
from dataclasses import dataclass

import structlog

from mirror.errors import CorruptData
from mirror.worker.protocol import Message, MessageReader, WorkerAlive

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """Inbox item: a message from a worker."""

    worker: int
    generation: int
    message: Message


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """Inbox item: a worker has closed its channel."""

    worker: int
    generation: int


@dataclass(slots=True)
class ReaderHeartbeat:
    """Heartbeat of a worker's channel, written only by its reader thread.

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
    """Read messages until the worker closes the channel. Runs in a separate thread."""
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
        _log.debug("channel closed", worker=number)
    except CorruptData as error:
        _log.error("malformed message from worker", worker=number, reason=str(error))
    inbox.put(WorkerGone(number, generation))
