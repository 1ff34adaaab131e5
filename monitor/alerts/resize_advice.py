"""Alert that recommends more instances, based on the sizing advice. Pure except for reading the advice.

The alert fires a configured lead time before the first hour that requires more instances than the service
has. It resolves when the service has enough instances, or when these hours have passed. Changes of the
forecast do not resolve the alert, so that one peak causes one alert.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mirror.bulkheads import Bulkhead
from mirror.loggers import get_logger
from mirror.model.capacity.advice import HOUR_MS, Advice, GroupNeed, HourNeed, age_text, hours_together
from mirror.model.reasons import reason_of
from mirror.wording import counted
from monitor.alerts.alert import Alert
from monitor.alerts.catalogue import RESIZE

_log = get_logger(__name__)
READ_SECONDS: Final = 60.0
"""Interval between two reads of the advice unless it is computed more often."""


@dataclass(frozen=True, slots=True)
class Resize:
    """Number of instances and tasks that the load requires from `since_ms` (None: now) to `until_ms` (None:
    unknown).

    `staying`: instances that are not leaving. `driver`: group of datastreams whose number of tasks increases
    most. `driver_tasks`, `driver_has`: required and current number of tasks of this group.
    """

    instances: int
    tasks: int
    staying: int
    since_ms: int | None
    until_ms: int | None
    driver: str
    driver_tasks: int
    driver_has: int

    @property
    def summary(self) -> str:
        """Summary of the alert that recommends more instances."""
        since = "now" if self.since_ms is None else f"from {_moment(self.since_ms)}"
        until = "" if self.until_ms is None else f" until {_moment(self.until_ms)}"
        there = f"there {'is' if self.staying == 1 else 'are'} {self.staying}"
        return f"the service needs {counted(self.instances, 'instance')} {since}{until}; {there}"

    @property
    def reason(self) -> str:
        """Reason why more instances are required."""
        then, all_tasks = counted(self.driver_tasks, "task"), counted(self.tasks, "task")
        return f"needs {all_tasks}, mainly for group {self.driver}: {then} then, {self.driver_has} now"


def resize_of(advice: Advice, lead_seconds: float, now_ms: int) -> Resize | None:
    """Return the recommendation of more instances, now or within the lead time; None if there is none.

    Returns None if enough instances are live, or if the required number is unknown.
    """
    each = advice.tasks_per_instance
    if each is None:
        return None

    def needed(tasks: int) -> int:
        return max(1, -(-tasks // each))

    known = [group for group in advice.groups if group.now is not None]
    if not known:
        return None
    present = sum(group.now or 0 for group in known)
    is_short = needed(present) > advice.instances
    short: list[HourNeed] = []
    for hour in hours_together(known, now_ms):
        if needed(hour.most_tasks) > advice.instances:
            short.append(hour)
        elif short or hour.hour_ms > now_ms + lead_seconds * 1000:
            break
    is_near = bool(short) and short[0].hour_ms - lead_seconds * 1000 <= now_ms
    if not is_short and not is_near:
        return None
    if is_short and not is_near:
        short = []
    tasks = max([present if is_short else 0, *(hour.most_tasks for hour in short)])
    peak = max(short, key=lambda hour: hour.most_tasks, default=None)
    begins_now = is_short or short[0].hour_ms <= now_ms
    driver, then = _driver(known, peak)
    return Resize(
        needed(tasks),
        tasks,
        advice.instances,
        None if begins_now else short[0].hour_ms,
        short[-1].hour_ms + HOUR_MS if short else None,
        driver.group,
        then,
        driver.tasks,
    )


def _driver(groups: list[GroupNeed], peak: HourNeed | None) -> tuple[GroupNeed, int]:
    """Return the group that needs the most additional tasks, and the number of tasks that it requires."""

    def then(group_need: GroupNeed) -> int:
        coming = [
            hour.most_tasks for hour in group_need.coming if peak is not None and hour.hour_ms == peak.hour_ms
        ]
        return coming[0] if coming else group_need.now or 0

    found = max(groups, key=lambda group: (then(group) - group.tasks, then(group)))
    return found, then(found)


class ResizeWatch:
    """Derives the alert about too few instances from the latest sizing advice. Not thread-safe.

    `read`: returns the latest advice; called once in `read_seconds`. After a failure, the previous advice is
    used.
    """

    def __init__(
        self, read: Callable[[], Advice | None], lead_seconds: float, read_seconds: float = READ_SECONDS
    ) -> None:
        self._read = read
        self._lead = lead_seconds
        self._read_every_ms = read_seconds * 1000
        self._read_ms: int | None = None
        self._advice: Advice | None = None
        self._held: Resize | None = None

    def alerts(self, now_ms: int) -> list[Alert]:
        """Return a list that contains the alert about too few instances if it fires."""
        if self._read_ms is None or abs(now_ms - self._read_ms) >= self._read_every_ms:
            self._read_ms = now_ms
            self._refresh()
        advice = self._advice
        if advice is None:
            return []
        found = resize_of(advice, self._lead, now_ms)
        if found is None and self._held is not None and _lasts(self._held, advice, now_ms):
            found = self._held
        self._held = found
        if found is None:
            return []
        return [Alert(RESIZE, found.summary, f"{found.reason} (as of {age_text(advice, now_ms)} ago)", 0)]

    def _refresh(self) -> None:
        with Bulkhead(_log_failure):
            self._advice = self._read() or self._advice


def _log_failure(error: Exception) -> None:
    _log.warning("cannot read the sizing advice", reason=reason_of(error))


def _lasts(held: Resize, advice: Advice, now_ms: int) -> bool:
    """Return whether a recommendation of more instances still applies.

    The recommendation applies while the service has fewer instances and the hours have not passed.
    """
    return advice.instances < held.instances and held.until_ms is not None and now_ms < held.until_ms


def _moment(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%A %H:%M UTC")
