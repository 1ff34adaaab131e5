"""Times of alerts: how long a condition must last before its alert fires or resolves. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from monitor.alerts.alert import AlertKind
from monitor.alerts.catalogue import (
    BLIND,
    CATCHING_UP,
    HALTED,
    LATE,
    LOSS_AHEAD,
    RECEIVER_AWAY,
    RESIZE,
    TRANSACTION,
    UNJUDGED,
)
from monitor.alerts.partitions import OF_PARTITIONS
from monitor.movement.summary import NEAR_SECONDS


class ClockReading(NamedTuple):
    """Time of both clocks: epoch milliseconds for display, monotonic seconds for durations."""

    ms: int
    seconds: float


@dataclass(frozen=True, slots=True)
class AlertPatience:
    """Seconds for which a condition must last before its alert fires, and must be absent (`keep_seconds`)
    before it resolves. A loss of data counts if it is at most `loss_within_seconds` away and the backlog is
    at least `loss_least_share` of the source's log. `burnt_seconds`: time after the alert of an incident in
    which short windows of error budgets still include it."""

    halted_seconds: float = 30.0
    unjudged_seconds: float = 600.0
    blind_seconds: float = 60.0
    keep_seconds: float = 60.0
    partitions_seconds: float = 60.0
    transaction_seconds: float = 900.0
    loss_seconds: float = 20.0
    loss_within_seconds: float = NEAR_SECONDS
    receiver_seconds: float = 120.0
    catching_up_seconds: float = 1_800.0
    recovered_seconds: float = 180.0
    loss_least_share: float = 0.1
    resize_seconds: float = 600.0
    burnt_seconds: float = 2_100.0

    def before(self, kind: AlertKind) -> float:
        """Return the seconds for which a condition must last before its alert fires."""
        waits = {
            HALTED: self.halted_seconds,
            UNJUDGED: self.unjudged_seconds,
            BLIND: self.blind_seconds,
            TRANSACTION: self.transaction_seconds,
            CATCHING_UP: self.catching_up_seconds,
            LOSS_AHEAD: self.loss_seconds,
            RECEIVER_AWAY: self.receiver_seconds,
            RESIZE: self.resize_seconds,
        }
        return waits.get(kind, self.partitions_seconds if kind in OF_PARTITIONS else 0.0)

    def after(self, kind: AlertKind) -> float:
        """Return the seconds for which a condition must be absent before its alert resolves."""
        if kind is LATE:
            return self.recovered_seconds
        return self.keep_seconds if kind in (HALTED, UNJUDGED) or kind in OF_PARTITIONS else 0.0
