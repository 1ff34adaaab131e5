"""Whether an answer of Pinot rests on all rows: a restarted server answers while it still reads its topic.

Such an answer looks whole. It is told from a whole one by what was known before, and where nothing was, by
how far Pinot has read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mirror.errors import HeadraceError
from mirror.model.load import LoadReport
from mirror.ports import Clock
from mirror.wording import counted

_RETRY_SECONDS: Final = 60.0

Positions = Mapping[int, int]
"""Offsets by partition of the table's topic."""


def lost_rows(before: LoadReport, now: LoadReport, since_ms: int) -> str:
    """What is wrong when samples that were known are gone though their time has not passed; else empty. Pure.

    `since_ms`: samples from then on belong to both answers.
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
    return f"{count} lack samples that were there before, such as {back[0]}"


@dataclass(frozen=True)
class Progress:
    """How to learn how far a topic reaches, and how far Pinot has read it."""

    ends: Callable[[], Positions]
    read: Callable[[], Positions]


class CatchingUp:
    """Whether Pinot has read what was there when it was first asked. Used by one thread.

    Once it has, it is not asked again until `suspect`.
    """

    def __init__(self, progress: Progress | None, clock: Clock) -> None:
        self._progress = progress
        self._clock = clock
        self._goal: Positions | None = None
        self._done = progress is None
        self._not_before = 0.0
        self.unknown = ""
        """Why it is not known whether Pinot has caught up; empty when it is."""

    def suspect(self) -> None:
        """Ask again: Pinot did not answer, so it may have been restarted."""
        self._done, self._goal = self._progress is None, None

    def problem(self) -> str:
        """What Pinot has not read yet; empty when it has caught up, or when nobody can say (`unknown`)."""
        if self._done or self._progress is None or self._clock.monotonic() < self._not_before:
            return ""
        try:
            if self._goal is None:
                self._goal = self._progress.ends()
            read = self._progress.read()
        except HeadraceError as error:
            self.unknown = error.message
            self._not_before = self._clock.monotonic() + _RETRY_SECONDS
            return ""
        self.unknown = ""
        behind = {number: end - read.get(number, 0) for number, end in self._goal.items()}
        left = sum(max(0, records) for records in behind.values())
        self._done = left == 0
        return (
            f"{counted(left, 'record of its topic is', 'records of its topic are')} still to be read"
            if left
            else ""
        )
