"""Outbox of one receiver: the latest state of each pending alert, and when to send it. Pure.

A new state is delayed by `gather_seconds`, so that alerts with a common cause share a message. A firing alert
is sent again every `refresh_seconds` as long as the monitor confirms it. An alert that ends before the first
attempt is never sent. If the receiver does not respond, the first retry follows after one second. The
interval then doubles up to `most_retry_seconds`. A retry sends the state at the time of the retry.

A message contains alerts of one group only, so no part of an accepted message has to be sent again. Alerts
whose last attempt is longest ago come first. A message that the receiver never accepts therefore does not
delay other alerts for good.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from monitor.alerts.alert import AlertNotice

NEVER: Final = float("inf")
_FIRST_RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Timing and size limits of an outbox.

    `capacity`: maximum number of firing alerts, and of resolved alerts. `most_at_once`: maximum number of
    alerts in one message.
    """

    gather_seconds: float
    refresh_seconds: float
    most_retry_seconds: float = 60.0
    capacity: int = 10_000
    most_at_once: int = 10_000


@dataclass(slots=True)
class _OutboxEntry:
    """State of one alert that the receiver must get or has got.

    `due_at`: time at which the current state is due to be sent. `is_current`: the monitor has confirmed the
    alert since it was last sent. `was_tried`: the alert was sent while it was firing, so the receiver may
    have received it.
    """

    notice: AlertNotice
    due_at: float
    is_current: bool = True
    was_tried: bool = False
    is_told: bool = False

    def time(self) -> float:
        """Return when to send the alert (monotonic seconds); `NEVER` if it is neither confirmed nor
        resolved."""
        return self.due_at if self.is_current or not self.notice.is_firing else NEVER


class Outbox:
    """Alerts that one receiver must get. Times are monotonic seconds."""

    def __init__(
        self, schedule: Schedule, group_of: Callable[[AlertNotice], Hashable] = lambda _: None
    ) -> None:
        self._schedule = schedule
        self._group_of = group_of
        self._entries: dict[str, _OutboxEntry] = {}
        self._retry_at = 0.0
        self._pause = 0.0
        self._most_at_once = schedule.most_at_once

    @property
    def waiting(self) -> int:
        """Number of alerts whose latest state the receiver has not accepted yet."""
        return sum(map(_is_new, self._entries.values()))

    @property
    def accepted(self) -> frozenset[str]:
        """Keys of those firing alerts that the receiver has accepted."""
        entries = self._entries.items()
        return frozenset(key for key, entry in entries if entry.is_told and entry.notice.is_firing)

    def offer(self, firing: Mapping[str, AlertNotice], ended: Iterable[AlertNotice], now: float) -> int:
        """Replace the firing alerts in the outbox, and add the alerts that resolved since the last call.

        Returns the number of alerts that were dropped because the outbox is full. A later call can add a
        dropped alert if it still fires.
        """
        due_at = now + self._schedule.gather_seconds
        self._note_ends(ended, due_at)
        for key, entry in list(self._entries.items()):
            if entry.notice.is_firing and key not in firing:
                entry.is_current = False
                if not entry.was_tried:
                    del self._entries[key]
        room = self._schedule.capacity - sum(entry.notice.is_firing for entry in self._entries.values())
        dropped = 0
        for key, notice in firing.items():
            known = self._entries.get(key)
            if known is not None and known.notice.is_firing:
                known.notice, known.is_current = notice, True
            elif room > 0:
                self._entries[key] = _OutboxEntry(notice, due_at, was_tried=known is not None)
                room -= 1
            else:
                dropped += 1
        return dropped

    def restore(self, notices: Iterable[AlertNotice], delivered: Collection[str], now: float) -> None:
        """Continue with the firing alerts of a previous monitor.

        `delivered`: keys of the alerts that the receiver has accepted. The other alerts are sent again when
        the monitor confirms them, unless it has sent them itself. The end of an alert is sent in any case."""
        own = self.accepted
        for notice in notices:
            if notice.key in own:
                continue
            is_delivered = notice.key in delivered
            wait = self._schedule.refresh_seconds if is_delivered else self._schedule.gather_seconds
            self._entries[notice.key] = _OutboxEntry(
                notice, now + wait, is_current=False, was_tried=True, is_told=is_delivered
            )

    def _note_ends(self, ended: Iterable[AlertNotice], due_at: float) -> None:
        """Queue resolved alerts whose firing state was sent. Above `capacity`, the oldest ones are dropped,
        because the current state is more important than the history."""
        for notice in ended:
            entry = self._entries.pop(notice.key, None)
            if entry is not None and entry.was_tried:
                self._entries[notice.key] = _OutboxEntry(notice, due_at, was_tried=True)
        over = [key for key, entry in self._entries.items() if not entry.notice.is_firing]
        for key in over[: max(0, len(over) - self._schedule.capacity)]:
            del self._entries[key]

    def next_at(self) -> float:
        """Return the time of the next message, or `NEVER` if none is pending."""
        return max(self._retry_at, min((entry.time() for entry in self._entries.values()), default=NEVER))

    def take(self, now: float, *, is_last: bool = False) -> Sequence[AlertNotice]:
        """Return the alerts of the next message if it is due, otherwise nothing.

        The caller reports the result with `delivered`, `rejected`, `failed` or `refused`. `is_last`: send at
        once instead of waiting for more alerts.
        """
        if now < self._retry_at:
            return ()
        wanted = [
            entry for entry in self._entries.values() if entry.time() <= now or (is_last and _is_new(entry))
        ]
        if not wanted:
            return ()
        first = self._group_of(min(wanted, key=lambda entry: entry.due_at).notice)
        due = {id(entry) for entry in wanted}
        group = [
            entry
            for entry in self._entries.values()
            if (id(entry) in due or _is_new(entry)) and self._group_of(entry.notice) == first
        ]
        group = sorted(group, key=lambda entry: entry.due_at)[: self._most_at_once]
        for entry in group:
            entry.was_tried, entry.due_at = True, now
        return [entry.notice for entry in group]

    def delivered(self, notices: Sequence[AlertNotice], now: float) -> None:
        """Record that the receiver has accepted a message, or has rejected an alert permanently."""
        self._retry_at = self._pause = 0.0
        self._most_at_once = min(2 * self._most_at_once, self._schedule.most_at_once)
        for notice in notices:
            entry = self._entries.get(notice.key)
            if entry is None or entry.notice.is_firing != notice.is_firing:
                continue  # its state has changed since it was sent
            if not notice.is_firing:
                del self._entries[notice.key]
                continue
            entry.is_told, entry.due_at = True, now + self._schedule.refresh_seconds
            entry.is_current = False  # sent again when the monitor confirms it

    def rejected(self, notices: Sequence[AlertNotice], now: float) -> None:
        """Record that the receiver rejects the content of a message. It may be too large, or contain a single
        alert that the receiver never accepts, so its alerts are sent again in smaller messages."""
        if len(notices) == 1:
            self.delivered(notices, now)
            return
        self._retry_at = self._pause = 0.0
        self._most_at_once = len(notices) // 2

    def failed(self, now: float, retry_after: float = 0.0) -> None:
        """Record that the receiver did not respond, or requested a retry after `retry_after` seconds."""
        most = self._schedule.most_retry_seconds
        self._pause = min(most, 2 * self._pause or _FIRST_RETRY_SECONDS)
        self._retry_at = now + max(self._pause, min(retry_after, most))

    def refused(self, now: float) -> None:
        """Record that the receiver rejects all messages until an operator intervenes. Retries use the longest
        interval."""
        self._pause = self._schedule.most_retry_seconds
        self._retry_at = now + self._pause


def _is_new(entry: _OutboxEntry) -> bool:
    """Return whether the alert's current state was not sent yet. It is sent early if its group is due."""
    return not entry.is_told and entry.time() < NEVER
