"""Order in which partitions catch up, so that sources delete uncopied records of as few as possible. Pure.

A partition is in reach when its source will delete an uncopied record within ten minutes
(`mirror.model.movement.loss`). It lacks bandwidth when that time hardly grows. While one lacks bandwidth,
partitions with clearly more time, or with unknown or unlimited time, yield to it: their combined rate is
halved with each check, down to an eighth of the worker's throughput, and rises again when no partition lacks
bandwidth. Partitions thus yield only as far as needed, and none starves. If no partition is in reach, none
yields.

Earliest deadline first saves all partitions if that is possible. A partition is safe when it gets as many
bytes per second as its records occupy in the source log per second (`need`). If the needs exceed the worker's
throughput, all would lose records one after another, so the partitions with the largest needs are given up
until the rest fits, which saves the most partitions. A partition is also given up if its time has run out, or
if its time keeps shrinking although others have yielded for a while, because the bottleneck is elsewhere.
Such partitions yield like those with ample time, and are reassessed with each check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mirror.model.datastreams.lanes import LaneKey

REACH_SECONDS: Final = 600.0
LEAST_SHARE: Final = 0.125
"""Share of the worker's throughput for all partitions that yield."""
_GROWTH: Final = 0.25
"""Seconds of time to loss that a partition in reach must gain per second; with less, it lacks bandwidth."""
_SPREAD: Final = 0.25
_LEAST_SPREAD_SECONDS: Final = 5.0
"""Partitions with more time than the first one yield, beyond this fraction of its time or these seconds."""
_LEAST_RATE: Final = 16 * 1024.0
_FADING: Final = 0.98
"""Decay per check of the worker's capacity, which is the highest throughput seen."""
_CUT: Final = 0.5
_RISE: Final = 1.25
_SLACK: Final = 1.1
"""Tolerance for estimation errors: while there is time, a smaller excess of needs gives up no partition."""
_CLEAR_SECONDS: Final = 15.0
_ADMISSION: Final = 0.9
"""Fraction of the room within which the need of a given-up partition must fit to be readmitted."""
_TRIAL_SECONDS: Final = 20.0
_FALLING: Final = -0.05
_AGAIN_SECONDS: Final = 60.0


class CatchUp(NamedTuple):
    """A lane that catches up.

    `left`: seconds until its source deletes an uncopied record; None if nothing is deleted or unknown.
    `growth`: change of `left` per second; None while the lane is new. `need` and `speed`: bytes per second
    required for `left` to stay constant, and copied.
    """

    key: LaneKey
    left: float | None
    growth: float | None
    need: float
    speed: float


@dataclass(frozen=True, slots=True)
class Precedence:
    """Lanes that yield, and the bytes per second that they share.

    `capacity`: highest known throughput of the worker in bytes per second. `given_up`: lanes given up, with
    the time until which that lasts. `in_vain_since`: time since which other lanes have had the minimum rate
    while the time of all prioritized lanes keeps shrinking.
    """

    waiting: frozenset[LaneKey] = frozenset()
    rate: float = 0.0
    capacity: float = 0.0
    given_up: Mapping[LaneKey, float] = field(default_factory=dict)
    in_vain_since: float | None = None


def decide(before: Precedence, lanes: Sequence[CatchUp], now: float) -> Precedence:
    """Decide which catching-up lanes of a worker yield from `now` (monotonic seconds)."""
    capacity = max(sum(lane.speed for lane in lanes), before.capacity * _FADING)
    in_reach = [lane for lane in lanes if lane.left is not None and lane.left <= REACH_SECONDS]
    has_others = len(in_reach) < len(lanes)
    given_up = _given_up(before, in_reach, _room(in_reach, capacity, has_others=has_others), now)
    after = replace(before, capacity=capacity, given_up=given_up)
    least = max(LEAST_SHARE * capacity, _LEAST_RATE)
    hopeful = [one for one in in_reach if one.key not in given_up]
    if not any(one.growth is not None and one.growth < _GROWTH for one in hopeful):
        return _relaxed(after, lanes, least)
    bound = _bound(min(_left(one) for one in hopeful))
    waiting = [lane for lane in lanes if lane.key in given_up or _left(lane) > bound]
    if not waiting:
        return replace(after, waiting=frozenset(), rate=0.0, in_vain_since=None)
    former = before.rate if before.waiting else sum(one.speed for one in waiting)
    after = replace(after, waiting=frozenset(one.key for one in waiting), rate=max(former * _CUT, least))
    return _tried(after, [one for one in hopeful if one.key not in after.waiting], least, now)


def _left(lane: CatchUp) -> float:
    return lane.left if lane.left is not None else float("inf")


def _bound(first: float) -> float:
    """Return the longest time to loss of lanes that are prioritized together with the first."""
    return first + max(first * _SPREAD, _LEAST_SPREAD_SECONDS)


def _room(in_reach: Sequence[CatchUp], capacity: float, *, has_others: bool) -> float:
    """Return the limit for the sum of needs: the capacity without the share reserved for other lanes."""
    living = [one for one in in_reach if _left(one) > 0]
    first = min((_left(one) for one in living), default=0.0)
    most = capacity * (_SLACK if first > _CLEAR_SECONDS else 1.0)
    if (
        not has_others
        and len(living) == len(in_reach)
        and sum(one.need for one in in_reach) <= most * _ADMISSION
    ):
        return most
    return most * (1 - LEAST_SHARE)


def _given_up(
    before: Precedence, in_reach: Sequence[CatchUp], room: float, now: float
) -> Mapping[LaneKey, float]:
    """Return the lanes that cannot be saved. Lanes given up before come last, so lanes do not alternate."""
    found: dict[LaneKey, float] = {}
    taken = 0.0
    for one in sorted(in_reach, key=lambda lane: (lane.key in before.given_up, lane.need, lane.key)):
        until = before.given_up.get(one.key)
        fits = taken + one.need <= (room if until is None else room * _ADMISSION)
        if _left(one) <= 0 or not fits or (until is not None and until > now):
            found[one.key] = now if until is None else until
        else:
            taken += one.need
    return found


def _relaxed(after: Precedence, lanes: Sequence[CatchUp], least: float) -> Precedence:
    """Raise the rate of the lanes that yield, or lift it, when no lane lacks bandwidth."""
    rate = max(after.rate * _RISE, least)
    waiting = after.waiting & {lane.key for lane in lanes}
    if not waiting or rate >= after.capacity:
        waiting, rate = frozenset(), 0.0
    return replace(after, waiting=waiting, rate=rate, in_vain_since=None)


def _tried(after: Precedence, first: Sequence[CatchUp], least: float, now: float) -> Precedence:
    """Give up the largest prioritized lane if the time of all of them keeps shrinking for a while although
    other lanes have the minimum rate."""
    is_in_vain = all(one.growth is not None and one.growth < _FALLING for one in first)
    if after.rate > least or not is_in_vain:
        return replace(after, in_vain_since=None)
    since = now if after.in_vain_since is None else after.in_vain_since
    if now - since < _TRIAL_SECONDS:
        return replace(after, in_vain_since=since)
    largest = max(first, key=lambda lane: (lane.need, lane.key))
    given_up = {**after.given_up, largest.key: now + _AGAIN_SECONDS}
    return replace(after, given_up=given_up, in_vain_since=None)
