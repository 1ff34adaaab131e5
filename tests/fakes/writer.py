"""A connected produce channel to which lanes are attached in tests without a sender."""

from __future__ import annotations

from math import inf

from mirror.lane.lane import Lane
from mirror.model.datastreams.lanes import WindowLimit


class FakeWriter:
    """A `channels.Writer` that sends nothing. `asked`: time at which its oldest response was due."""

    broker = 1
    is_connected = True

    def __init__(self, asked: float = inf) -> None:
        self.asked = asked

    def wake(self, lane: Lane) -> None:
        raise AssertionError

    detach = wake

    def unanswered_since(self) -> float:
        return self.asked

    def window_limit(self, lane: Lane) -> WindowLimit | None:
        raise AssertionError
