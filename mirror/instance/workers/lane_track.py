"""Latest reports about one lane, stored so that many lanes need little memory and time.

Most lanes have no late records. Workers omit the positions of such lanes (see `PositionWatch`), and send the
last few with the next relevant position. The resulting `history` is the same as if `LaneHistory.after` had
processed every position (`tests/property/mirror/instance/test_lane_track.py`).
"""

from __future__ import annotations

from math import inf

from mirror.model.datastreams.lanes import NO_WINDOWS, Unanswered
from mirror.model.movement.history import NO_HISTORY, UNKNOWN_RETENTION, LaneHistory, LanePosition, LaneSample
from mirror.model.movement.loss import seconds_to_loss
from mirror.worker.protocol import LaneRate


class LaneTrack:
    """Positions and rates that workers have reported for one lane. One thread writes; any thread may read.

    `history`: reported positions of the lane. `rate`: last report, None if missing or outdated. `quiet_at`:
    time of the last report with waiting but no late records (monotonic seconds); infinity if no records wait
    or the worker will report late records; otherwise minus infinity. `may_lose`: the reports allow an
    estimate of when the source deletes uncopied records. `unanswered`: overdue requests at the last report,
    or None. `windows`: TCP receive windows that limited the lane's rate at the last report. `moved_at`: last
    report of copied or waiting records; minus infinity if never.
    """

    __slots__ = (
        "_is_watched",
        "_loss_look",
        "history",
        "may_lose",
        "moved_at",
        "quiet_at",
        "rate",
        "unanswered",
        "windows",
    )

    def __init__(self, history: LaneHistory = NO_HISTORY, rate: LaneRate | None = None) -> None:
        self.rate = rate
        self.moved_at = -inf
        self.unanswered: Unanswered | None = None
        self.windows = NO_WINDOWS
        self._loss_look = NO_HISTORY, inf
        self._keep(history, is_watched=False)

    def _keep(self, history: LaneHistory, *, is_watched: bool) -> None:
        self.history = history
        self.may_lose = len(history.starts) > 2 or history.retention != UNKNOWN_RETENTION
        is_quiet = bool(history.waypoints) and history.is_in_time
        self._is_watched = is_watched and is_quiet
        self.quiet_at = -inf
        if is_quiet:
            newest = history.waypoints[-1]
            self.quiet_at = newest.at if newest.waiting and not is_watched else inf

    def silenced(self) -> LaneTrack:
        """Return a track with the history of positions, but without the latest report."""
        silent = LaneTrack()
        silent._keep(self.history, is_watched=self._is_watched)
        silent.moved_at = self.moved_at
        return silent

    def unwatch(self, answered_at: float) -> None:
        """Count `answered_at` as the time of the last report, because the worker is unresponsive."""
        if self._is_watched:
            self._is_watched, self.quiet_at = False, answered_at

    def note(self, rate: LaneRate, now: float, answered_at: float | None) -> None:
        """Add the worker's latest report of the lane. `answered_at`: see `LaneHistory.after`."""
        before, self.rate, self.unanswered, self.windows = self.rate, rate, None, NO_WINDOWS
        if rate.messages_per_second > 0 or rate.lag_records > 0:
            self.moved_at = now
        place = rate.position
        if place is None:
            return
        history = self.history
        if place.withheld and history.waypoints and history.is_in_time:
            each = _record_bytes(before) if before else None
            history = history.after_quiet(place.withheld, place.starts, each)
        sample = _waypoint(place, now, rate.lag_ms)
        history = history.after(sample, answered_at, place.retention, _record_bytes(rate))
        self._keep(history, is_watched=place.is_watched)

    def loss_at(self) -> float:
        """Return when the source will delete the first uncopied record (monotonic seconds). Returns infinity
        if unknown. Computed once per history."""
        if not self.may_lose:
            return inf
        history, (looked_by, found) = self.history, self._loss_look
        if looked_by is not history:
            at = history.newest.at if history.newest is not None else 0.0
            left = seconds_to_loss(history, at)
            found = inf if left is None else at + left
            self._loss_look = history, found
        return found

    def is_in_time(self, now: float, silence_seconds: float) -> bool:
        """Return whether the lane has no late records.

        Returns False if records are late, hidden by an open transaction, of unknown age, or copied again; or
        if records wait and the lane has not reported within `silence_seconds`. May be False if the result is
        expensive to compute.
        """
        return now - self.quiet_at <= silence_seconds


def _waypoint(place: LanePosition, now: float, lag_ms: int | None) -> LaneSample:
    return LaneSample(
        now,
        place.checkpoint,
        place.readable_end,
        place.end,
        lag_ms,
        place.log_start,
        place.hidden_ms,
        place.life,
    )


def _record_bytes(rate: LaneRate) -> float | None:
    return rate.bytes_per_second / rate.messages_per_second if rate.messages_per_second else None
