"""Order in which partitions catch up, so that as few partitions as possible lose records at the source. Pure.
A partition is "in reach" (of retention) if its source will delete an uncopied record within ten minutes
(`mirror.model.movement.loss`). A partition in reach lacks bandwidth if its time to loss hardly grows. While a
partition in reach lacks bandwidth, partitions with clearly more time, or with unknown or unlimited time,
yield: their combined rate is halved at each check, down to an eighth of the worker's throughput. The rate
rises again when no partition lacks bandwidth. Partitions are therefore throttled only as far as needed, and
every partition keeps a minimum rate. If no partition is in reach, none yields.

Copying by the earliest deadline saves all partitions if that is possible. A partition is safe if its copy
rate is at least `need`, the bytes that the source log contains per second of the backlog. If the sum of the
needs exceeds the worker's throughput, all partitions would lose records one after another. The partitions
with the largest needs are therefore given up until the remaining needs fit, which saves the most partitions.
A partition is also given up if its time has run out, or if its time keeps shrinking although other partitions
have yielded for a while, because then the bottleneck is elsewhere. Partitions that are given up yield too,
and are checked again each time.
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
"""Seconds per second by which the time to loss of a partition in reach must grow.

With a slower growth, the partition lacks bandwidth.
"""
_SPREAD: Final = 0.25
_LEAST_SPREAD_SECONDS: Final = 5.0
"""A partition yields if it has more time than the most urgent partition, by more than this fraction of that
partition's time and at least these seconds."""
_LEAST_RATE: Final = 16 * 1024.0
_FADING: Final = 0.98
"""Factor by which the worker's capacity, which is the highest throughput observed, decays at each check."""
_CUT: Final = 0.5
_RISE: Final = 1.25
_SLACK: Final = 1.1
"""Factor by which needs must exceed the throughput before a partition is given up.

The factor tolerates estimation errors unless a loss is near.
"""
_CLEAR_SECONDS: Final = 15.0
_ADMISSION: Final = 0.9
"""Fraction of the available throughput. A partition that has lost its priority regains it only if the
prioritized partitions together need no more than this."""
_TRIAL_SECONDS: Final = 20.0
_FALLING: Final = -0.05
_AGAIN_SECONDS: Final = 60.0


class CatchUp(NamedTuple):
    """A lane that is catching up.

    `left`: seconds until its source deletes an uncopied record; None if no record is deleted, or if the time
    is unknown. `growth`: change of `left` per second; None while the lane is new. `need`: bytes per second
    that the lane must copy to keep `left` constant. `speed`: bytes per second that the lane copies.
    """

    key: LaneKey
    left: float | None
    growth: float | None
    need: float
    speed: float


@dataclass(frozen=True, slots=True)
class Precedence:
    """Lanes that yield, and the bytes per second that they share.

    `capacity`: highest known throughput of the worker in bytes per second. `given_up`: lanes that are given
    up, and until when. `in_vain_since`: time since which the time to loss of all prioritized lanes has kept
    shrinking, although the yielding lanes have the minimum rate.
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
    """Return the time to loss up to which lanes are prioritized (seconds).

    The limit is derived from the time to loss of the most urgent lane.
    """
    return first + max(first * _SPREAD, _LEAST_SPREAD_SECONDS)


def _room(in_reach: Sequence[CatchUp], capacity: float, *, has_others: bool) -> float:
    """Return the limit for the sum of needs: the capacity without the share reserved for other lanes."""
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
    """Return the lanes that cannot be saved.

    Lanes that were given up before are considered last, so that lanes do not alternate.
    """
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
    """Raise or remove the limit of the lanes that yield, because no lane lacks bandwidth."""
    rate = max(after.rate * _RISE, least)
    waiting = after.waiting & {lane.key for lane in lanes}
    if not waiting or rate >= after.capacity:
        waiting, rate = frozenset(), 0.0
    return replace(after, waiting=waiting, rate=rate, in_vain_since=None)


def _tried(after: Precedence, first: Sequence[CatchUp], least: float, now: float) -> Precedence:
    """Give up the prioritized lane with the largest need if yielding does not help.

    The time to loss of all prioritized lanes has kept shrinking for a while, although the yielding lanes have
    the minimum rate.
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
