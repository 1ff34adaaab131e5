"""Chooses which partitions catch up first, so that as few as possible lose records to retention. Pure.

A partition is "in reach" of retention if its source will delete an uncopied record within ten minutes
(`mirror.model.movement.loss`). It lacks bandwidth if its time to loss hardly grows. While a partition in
reach lacks bandwidth, partitions with clearly more time, or with unknown or unlimited time, yield: each check
halves their combined rate, down to an eighth of the worker's throughput. The rate rises again when no
partition lacks bandwidth. Without a partition in reach, no partition yields.

Copying by the earliest deadline saves all partitions if that is possible. A partition is safe if its copy
rate is at least its `need`, the bytes that the source log has per second of the backlog. If the sum of all
needs exceeds the worker's throughput, all partitions would lose records. The partitions with the largest
needs are therefore given up until the remaining needs fit, which saves the most partitions. A partition is
also given up if its time has run out, or if its time keeps shrinking although others yield: the bottleneck is
then elsewhere. Partitions that were given up yield too, and are considered again at each check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mirror.model.datastreams.lanes import LaneKey

REACH_SECONDS: Final = 600.0
LEAST_SHARE: Final = 0.125
"""Share of the worker's throughput that all yielding partitions keep together."""
_GROWTH: Final = 0.25
"""Seconds per second by which the time to loss must grow; below it, a partition lacks bandwidth."""
_SPREAD: Final = 0.25
_LEAST_SPREAD_SECONDS: Final = 5.0
"""A partition yields if it has more time than the most urgent partition.

The difference must exceed a fraction of that partition's time, and at least these seconds.
"""
_LEAST_RATE: Final = 16 * 1024.0
_FADING: Final = 0.98
"""Factor by which the known capacity (the highest observed throughput) shrinks at each check."""
_CUT: Final = 0.5
_RISE: Final = 1.25
_SLACK: Final = 1.1
"""Factor by which needs must exceed the throughput before a partition is given up.

It allows for estimation errors, unless a loss is near.
"""
_CLEAR_SECONDS: Final = 15.0
_ADMISSION: Final = 0.9
"""Fraction of the available throughput within which all needs must be for a partition to regain priority."""
_TRIAL_SECONDS: Final = 20.0
_FALLING: Final = -0.05
_AGAIN_SECONDS: Final = 60.0


class CatchUp(NamedTuple):
    """Measured state of a lane that has a backlog.

    `left`: seconds until its source deletes an uncopied record; None if it deletes none, or if unknown.
    `growth`: change of `left` per second; None for a new lane. `need`: bytes per second that keep `left`
    constant. `speed`: bytes per second that the lane copies.
    """

    key: LaneKey
    left: float | None
    growth: float | None
    need: float
    speed: float


@dataclass(frozen=True, slots=True)
class Precedence:
    """Which lanes yield to more urgent lanes, and how many bytes per second the yielding lanes share.

    `capacity`: highest known throughput of the worker (bytes/s). `given_up`: lanes that are given up, each
    with the time until which. `in_vain_since`: time since which the time to loss of all prioritized lanes has
    shrunk, although yielding lanes have the minimum rate.
    """

    waiting: frozenset[LaneKey] = frozenset()
    rate: float = 0.0
    capacity: float = 0.0
    given_up: Mapping[LaneKey, float] = field(default_factory=dict)
    in_vain_since: float | None = None


def decide(before: Precedence, lanes: Sequence[CatchUp], now: float) -> Precedence:
    """Decide which lanes of a worker yield to more urgent ones. `now`: monotonic seconds."""
    capacity = max(sum(lane.speed for lane in lanes), before.capacity * _FADING)
    in_reach = [lane for lane in lanes if lane.left is not None and lane.left <= REACH_SECONDS]
    has_others = len(in_reach) < len(lanes)
    given_up = _given_up(before, in_reach, _room(in_reach, capacity, has_others=has_others), now)
    after = replace(before, capacity=capacity, given_up=given_up)
    least = max(LEAST_SHARE * capacity, _LEAST_RATE)
    hopeful = [lane for lane in in_reach if lane.key not in given_up]
    if not any(lane.growth is not None and lane.growth < _GROWTH for lane in hopeful):
        return _relaxed(after, lanes, least)
    bound = _bound(min(_left(lane) for lane in hopeful))
    waiting = [lane for lane in lanes if lane.key in given_up or _left(lane) > bound]
    if not waiting:
        return replace(after, waiting=frozenset(), rate=0.0, in_vain_since=None)
    former = before.rate if before.waiting else sum(lane.speed for lane in waiting)
    after = replace(after, waiting=frozenset(lane.key for lane in waiting), rate=max(former * _CUT, least))
    return _tried(after, [lane for lane in hopeful if lane.key not in after.waiting], least, now)


def _left(lane: CatchUp) -> float:
    return lane.left if lane.left is not None else float("inf")


def _bound(first: float) -> float:
    """Return the maximum time until loss, in seconds, of a prioritized lane. `first`: the shortest time."""
    return first + max(first * _SPREAD, _LEAST_SPREAD_SECONDS)


def _room(in_reach: Sequence[CatchUp], capacity: float, *, has_others: bool) -> float:
    """Return the limit for the sum of the needed rates: the capacity minus the share of other lanes."""
    living = [lane for lane in in_reach if _left(lane) > 0]
    first = min((_left(lane) for lane in living), default=0.0)
    most = capacity * (_SLACK if first > _CLEAR_SECONDS else 1.0)
    if (
        not has_others
        and len(living) == len(in_reach)
        and sum(lane.need for lane in in_reach) <= most * _ADMISSION
    ):
        return most
    return most * (1 - LEAST_SHARE)


def _given_up(
    before: Precedence, in_reach: Sequence[CatchUp], room: float, now: float
) -> Mapping[LaneKey, float]:
    """Return the lanes that will lose records even with priority. Lanes given up before come last, to avoid
    alternation."""
    found: dict[LaneKey, float] = {}
    taken = 0.0
    for urgent in sorted(in_reach, key=lambda lane: (lane.key in before.given_up, lane.need, lane.key)):
        until = before.given_up.get(urgent.key)
        fits = taken + urgent.need <= (room if until is None else room * _ADMISSION)
        if _left(urgent) <= 0 or not fits or (until is not None and until > now):
            found[urgent.key] = now if until is None else until
        else:
            taken += urgent.need
    return found


def _relaxed(after: Precedence, lanes: Sequence[CatchUp], least: float) -> Precedence:
    """Raise the limit of yielding lanes, or remove it, because no lane lacks bandwidth."""
    rate = max(after.rate * _RISE, least)
    waiting = after.waiting & {lane.key for lane in lanes}
    if not waiting or rate >= after.capacity:
        waiting, rate = frozenset(), 0.0
    return replace(after, waiting=waiting, rate=rate, in_vain_since=None)


def _tried(after: Precedence, first: Sequence[CatchUp], least: float, now: float) -> Precedence:
    """Give up the most demanding lane if the others yield in vain.

    Yielding does not help if the time to loss of all prioritized lanes keeps shrinking, although yielding
    lanes have the minimum rate.
    """
    is_in_vain = all(lane.growth is not None and lane.growth < _FALLING for lane in first)
    if after.rate > least or not is_in_vain:
        return replace(after, in_vain_since=None)
    since = now if after.in_vain_since is None else after.in_vain_since
    if now - since < _TRIAL_SECONDS:
        return replace(after, in_vain_since=since)
    largest = max(first, key=lambda lane: (lane.need, lane.key))
    given_up = {**after.given_up, largest.key: now + _AGAIN_SECONDS}
    return replace(after, given_up=given_up, in_vain_since=None)
