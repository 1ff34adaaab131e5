"""What one receiver has yet to be told, and when. Pure: not a log of what happened but the newest state of
each alert.

A new state waits `gather_seconds`, so that what has one cause is one message; an alert that lasts is told
again every `refresh_seconds`, while the monitor confirms it. An alert that ends before anybody tried to tell
it is not told at all. Where the receiver does not answer, the next attempt comes after a second, and after
twice as long each time, up to `most_retry_seconds`; by then it is told what is true then.

One message has the alerts of one group, so that no part of a message that was taken is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from monitor.alerts.alert import Notice

NEVER: Final = float("inf")
_FIRST_RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """See the module. `capacity`: alerts that are remembered, of those that fire and of those that are over;
    `most_at_once`: in one message."""

    gather_seconds: float
    refresh_seconds: float
    most_retry_seconds: float = 60.0
    capacity: int = 10_000
    most_at_once: int = 10_000


@dataclass(slots=True)
class _Entry:
    """One alert. `due_at`: when its present state is to be told; `is_current`: the monitor has confirmed it
    since it was told; `was_tried`: the receiver may have heard that it fires."""

    notice: Notice
    due_at: float
    is_current: bool = True
    was_tried: bool = False
    is_told: bool = False

    def time(self) -> float:
        """When to tell it; `NEVER` for what is neither confirmed nor over."""
        return self.due_at if self.is_current or not self.notice.is_firing else NEVER


class Outbox:
    """Of one receiver. Times are monotonic seconds."""

    def __init__(self, schedule: Schedule, group_of: Callable[[Notice], Hashable] = lambda _: None) -> None:
        self._schedule = schedule
        self._group_of = group_of
        self._entries: dict[str, _Entry] = {}
        self._retry_at = 0.0
        self._pause = 0.0

    @property
    def waiting(self) -> int:
        """Alerts whose newest state the receiver was not told."""
        return sum(map(_is_new, self._entries.values()))

    @property
    def told(self) -> frozenset[str]:
        """Keys of the firing alerts that the receiver has."""
        entries = self._entries.items()
        return frozenset(key for key, one in entries if one.is_told and one.notice.is_firing)

    def offer(self, firing: Mapping[str, Notice], ended: Iterable[Notice], now: float) -> int:
        """All alerts that fire now, by their keys, and those that have ended since the last call; how many of
        them there is no room for. These are offered again while they last."""
        due_at = now + self._schedule.gather_seconds
        self._note_ends(ended, due_at)
        for key, entry in list(self._entries.items()):
            if entry.notice.is_firing and key not in firing:
                entry.is_current = False
                if not entry.was_tried:
                    del self._entries[key]
        room = self._schedule.capacity - sum(one.notice.is_firing for one in self._entries.values())
        dropped = 0
        for key, notice in firing.items():
            known = self._entries.get(key)
            if known is not None and known.notice.is_firing:
                known.notice, known.is_current = notice, True
            elif room > 0:
                self._entries[key] = _Entry(notice, due_at, was_tried=known is not None)
                room -= 1
            else:
                dropped += 1
        return dropped

    def restore(self, notices: Iterable[Notice], told: Collection[str], now: float) -> None:
        """Continue with alerts that fire. The receiver has those whose keys are in `told`, and may have the
        others: these are sent again when they are offered, and the end of each in any case."""
        for notice in notices:
            is_told = notice.key in told
            wait = self._schedule.refresh_seconds if is_told else self._schedule.gather_seconds
            self._entries[notice.key] = _Entry(
                notice, now + wait, is_current=False, was_tried=True, is_told=is_told
            )

    def _note_ends(self, ended: Iterable[Notice], due_at: float) -> None:
        """Where there are too many, the oldest give way: a receiver that was away for long asks what is, and
        not what was."""
        for notice in ended:
            entry = self._entries.pop(notice.key, None)
            if entry is not None and entry.was_tried:
                self._entries[notice.key] = _Entry(notice, due_at, was_tried=True)
        over = [key for key, one in self._entries.items() if not one.notice.is_firing]
        for key in over[: max(0, len(over) - self._schedule.capacity)]:
            del self._entries[key]

    def next_at(self) -> float:
        """When there will be something to tell, as far as is known now."""
        return max(self._retry_at, min((one.time() for one in self._entries.values()), default=NEVER))

    def take(self, now: float, *, is_last: bool = False) -> Sequence[Notice]:
        """The next message, if one is due; its outcome is told by one of the next three methods. `is_last`:
        nothing will be gathered any more."""
        if now < self._retry_at:
            return ()
        wanted = [one for one in self._entries.values() if one.time() <= now or (is_last and _is_new(one))]
        if not wanted:
            return ()
        first = self._group_of(min(wanted, key=lambda one: one.due_at).notice)
        due = {id(one) for one in wanted}
        group = [
            one
            for one in self._entries.values()
            if (id(one) in due or _is_new(one)) and self._group_of(one.notice) == first
        ][: self._schedule.most_at_once]
        for one in group:
            one.was_tried = True
        return [one.notice for one in group]

    def delivered(self, notices: Sequence[Notice], now: float) -> None:
        """The receiver has taken them, or will never take them as they are."""
        self._retry_at = self._pause = 0.0
        for notice in notices:
            entry = self._entries.get(notice.key)
            if entry is None or entry.notice.is_firing != notice.is_firing:
                continue  # it has another state by now
            if not notice.is_firing:
                del self._entries[notice.key]
                continue
            entry.is_told, entry.due_at = True, now + self._schedule.refresh_seconds
            entry.is_current = False  # until the monitor says so again

    def failed(self, now: float, retry_after: float = 0.0) -> None:
        """The receiver did not answer, or wants to be asked later."""
        most = self._schedule.most_retry_seconds
        self._pause = min(most, 2 * self._pause or _FIRST_RETRY_SECONDS)
        self._retry_at = now + max(self._pause, min(retry_after, most))

    def refused(self, now: float) -> None:
        """The receiver takes nothing until a person changes something: asking often is no use."""
        self._pause = self._schedule.most_retry_seconds
        self._retry_at = now + self._pause


def _is_new(entry: _Entry) -> bool:
    """Whether its state was not told yet; it need not wait where others of its group are told."""
    return not entry.is_told and entry.time() < NEVER
