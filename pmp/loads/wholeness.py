"""Detects that Pinot returns partial results: a restarted server responds while it still reads its topic.

Such a response looks complete. A partial result is detected by comparison with the previous result or, if
there is none, by Pinot's offsets in the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mirror.errors import HeadraceError
from mirror.model.load import LoadReport
from mirror.ports import Clock
from mirror.wording import counted, first_few

_RETRY_SECONDS: Final = 60.0

Positions = Mapping[int, int]
"""Offsets by partition of the table's topic."""


def lost_rows(before: LoadReport, now: LoadReport, since_ms: int) -> str:
    """Describe which samples of the previous report are missing in the new one; empty if none are. Pure.

    `since_ms`: start of the time for which both results must contain all samples.
    """
    back = sorted(
        partition
        for partition, load in before.loads.items()
        if load.measured_at_ms is not None and load.measured_at_ms >= since_ms
        if partition not in now.loads or (now.loads[partition].measured_at_ms or 0) < load.measured_at_ms
    )
    if not back:
        return ""
    count = f"{len(back)} of {counted(len(before.loads), 'partition')}"
    return f"{count} lack samples of the previous result, such as {back[0]}"


@dataclass(frozen=True)
class Progress:
    """Functions that return the end offsets of the available partitions of a topic (`ends`), and the offsets
    up to which Pinot has read (`read`)."""

    ends: Callable[[], Positions]
    read: Callable[[], Positions]


class CatchingUp:
    """Checks whether Pinot has read its topic up to the end offsets at the first check. Used by one thread.

    After Pinot has caught up, no queries are made until `suspect` is called.
    """

    def __init__(self, progress: Progress | None, clock: Clock) -> None:
        self._progress = progress
        self._clock = clock
        self._goal: Positions = {}
        self._has_goal = False
        self._done = progress is None
        self._not_before = 0.0
        self.unknown = ""
        """Reason why Pinot's progress is unknown; empty otherwise."""

    def suspect(self) -> None:
        """Start to check Pinot's progress again, because Pinot did not respond and may have restarted."""
        self._done, self._goal, self._has_goal = self._progress is None, {}, False

    def problem(self) -> str:
        """Describe how much of its topic Pinot still has to read.

        The text is empty if Pinot has caught up or its progress is unknown.
        """
        if self._done or self._progress is None or self._clock.monotonic() < self._not_before:
            return ""
        try:
            if not self._has_goal:
                self._goal = {**self._progress.ends(), **self._goal}
            read = self._progress.read()
        except HeadraceError as error:
            self.unknown = error.message
            self._not_before = self._clock.monotonic() + _RETRY_SECONDS
            return ""
        unavailable = [str(number) for number in sorted(read.keys() - self._goal.keys())]
        self._has_goal = not unavailable
        self.unknown = f"unavailable partitions of its topic: {first_few(unavailable)}" if unavailable else ""
        behind = {number: end - read.get(number, 0) for number, end in self._goal.items()}
        left = sum(max(0, records) for records in behind.values())
        self._done = left == 0 and self._has_goal
        if left == 0 and unavailable:
            self._not_before = self._clock.monotonic() + _RETRY_SECONDS
        return f"{counted(left, 'record of its topic is', 'records of its topic are')} unread" if left else ""
