"""Handler of one api key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.state import ClusterState

NO_ANSWER: Final = object()
"""Returned for producers that want no response."""


@dataclass(frozen=True, slots=True)
class Handler:
    """Handler with classes of kafka-python. `versions`: lowest and highest supported.

    `handle` returns the response, or None if the request has to wait: it is then called again with the same
    request after a change of the cluster, and when `HandledRequest.until` has passed.
    """

    request: Any
    response: Any
    versions: tuple[int, int]
    handle: Callable[[ClusterState, HandledRequest], Any]
