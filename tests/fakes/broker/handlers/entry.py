"""What a handler of one api key is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.fakes.broker.faults import Asked
from tests.fakes.broker.state import ClusterState

NO_ANSWER: Final = object()
"""For producers that want none."""


@dataclass(frozen=True, slots=True)
class Handler:
    """`request` and `response` are kafka-python's classes, `versions` the lowest and highest that are served.

    `handle` returns the response, or None when the request has to wait: it is called again with the same
    request when something has changed, and when `Asked.until` is over.
    """

    request: Any
    response: Any
    versions: tuple[int, int]
    handle: Callable[[ClusterState, Asked], Any]
