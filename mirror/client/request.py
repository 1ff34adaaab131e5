"""Encoded requests to brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mirror.client.transport import Buffer
from mirror.errors import CorruptData, HeadraceError
from mirror.lane.memory import ReceiveBuffer
from mirror.protocol.control.call import CONTROL_BYTES

OnAnswer = Callable[[memoryview, ReceiveBuffer], None]
OnFailure = Callable[[HeadraceError], None]
API_VERSIONS: Final = 18
"""Request whose response header is never flexible."""


@dataclass(slots=True)
class Request:
    """An encoded request to a broker, its timeout and its callbacks.

    Exactly one of `on_answer` and `on_failure` is called, once. `on_answer`: called with the response body
    and the buffer that contains it, which the callback may retain. `wait_seconds`: time that the broker may
    wait before it responds, in addition to `timeout_seconds`; None if the response time says nothing about
    the broker's health. `most_bytes`: maximum size of the response. `is_incomplete`: the last bytes follow
    with `Connection.complete`; `size` includes them. `replication_seconds`: time that the broker may wait for
    replicas; None without replication.
    """

    api: int
    version: int
    flexible: bool
    body: Sequence[Buffer]
    size: int
    timeout_seconds: float
    on_answer: OnAnswer
    on_failure: OnFailure
    wait_seconds: float | None = None
    most_bytes: int = CONTROL_BYTES
    is_incomplete: bool = False
    replication_seconds: float | None = None


def split_end(buffers: Sequence[Buffer], size: int) -> tuple[list[Buffer], list[Buffer]]:
    """Split buffers into two lists. The second list contains the last `size` bytes."""
    front, end = list(buffers), list[Buffer]()
    while front and size:
        last = memoryview(front.pop())
        cut = max(len(last) - size, 0)
        size -= len(last) - cut
        end.insert(0, last[cut:])
        if cut:
            front.append(last[:cut])
    return front, end


def unusable_response(name: str, error: Exception) -> CorruptData:
    """Return the error for a response whose processing failed with `error`."""
    return CorruptData(f"cannot process a response of {name}: {type(error).__name__}: {error}"[:500])
