"""Encoded requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirror.client.transport import Buffer
from mirror.errors import CorruptData, HeadraceError
from mirror.lane.memory import ReceiveBuffer
from mirror.protocol.control.call import CONTROL_BYTES

OnAnswer = Callable[[memoryview, ReceiveBuffer], None]
OnFailure = Callable[[HeadraceError], None]


@dataclass(slots=True)
class Request:
    """An encoded request.

    `on_answer` is called with the response body and with the buffer that contains the body; the callback may
    retain the buffer. Either `on_answer` or `on_failure` is called, exactly once. `wait_seconds`: maximum
    wait of the broker that the request allows, to which `timeout_seconds` is added; None if the response time
    does not indicate the broker's health. `most_bytes`: maximum size of the response. `is_incomplete`: the
    end of the body follows with `Connection.complete`; `size` includes the end. `replication_seconds`: time
    for which the broker may wait for replicas; None for requests that are not replicated.
    """

    api: int
    version: int
    flexible: bool
    flexible_answer: bool
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
    """Split buffers into two parts, of which the second has the last `size` bytes."""
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
    """Return the error for a response whose processing raised `error`."""
    return CorruptData(f"cannot process a response of {name}: {type(error).__name__}: {error}"[:500])
