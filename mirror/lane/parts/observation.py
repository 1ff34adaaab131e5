"""Counters and times of a lane, for reports."""

from __future__ import annotations

from typing import Final

from mirror.lane.counters import LaneCounters
from mirror.model.datastreams.lanes import ANSWERED
from mirror.model.movement.position_watch import PositionWatch

_NOTHING_MEASURED: Final[tuple[int | None, int, int]] = None, 0, 0


class LaneObservation:
    """Counters and times of a lane that are only reported, and do not influence copying.

    `counters`: sums since the last measurement. `totals`: sums before that; None if there are none.
    `started_at`: time at which the engine started the lane (monotonic seconds). `is_announced`: the start has
    been reported. `delivered_ms`: append time of the newest record at the destination. `foreign_records`:
    destination offsets that other producers wrote between records of the lane. `measured`: last measurement:
    age of the backlog in ms, and number of records and bytes copied since the previous measurement.
    `overdue`: number of overdue responses at the last measurement. `was_measured`: flags of the last report
    (had work, lag unknown, response overdue). `stalled_by`: reason if the lane has waited for several
    seconds, otherwise empty. `held_by`: description of a hanging source transaction, otherwise empty;
    `hidden`: offset and timestamp (epoch ms, -1 if unknown) of the first record that the transaction hides;
    `since_stable`: time since which the record has been hidden (monotonic seconds).
    """

    __slots__ = (
        "counters",
        "delivered_ms",
        "foreign_records",
        "held_by",
        "hidden",
        "is_announced",
        "measured",
        "overdue",
        "since_stable",
        "stalled_by",
        "started_at",
        "totals",
        "was_measured",
        "watch",
    )

    def __init__(self) -> None:
        self.counters = LaneCounters()
        self.totals: LaneCounters | None = None
        self.started_at: float | None = None
        self.is_announced = False
        self.delivered_ms = -1
        self.foreign_records = 0
        self.overdue, self.measured = ANSWERED, _NOTHING_MEASURED
        self.was_measured: tuple[bool, bool, bool] | None = None
        self.watch = PositionWatch()
        self.since_stable = 0.0
        self.held_by, self.hidden = "", (-1, -1)
        self.stalled_by = ""

    def take_counters(self) -> LaneCounters:
        """Return the lane's counters since the previous call."""
        taken = self.counters
        if taken.batches or taken.fetched_parts:
            self.counters = LaneCounters()
            self.totals = self.totals or LaneCounters()
            self.totals.add(taken)
        return taken
