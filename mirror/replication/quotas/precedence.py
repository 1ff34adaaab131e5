"""Which partitions that catch up go first, so that sources delete records of as few as can be. Pure.

A partition is in reach when less than ten minutes are left until its source deletes a record that is not at
the destination (`mirror.model.movement.loss`); it lacks bandwidth when that time hardly grows. While one
lacks it, those with clearly more time give way to it, and those whose time is not known or has no end:
together they are left a rate that is halved with each look, down to an eighth of what the worker copies, and
that rises again when nobody lacks anything. So they give way as far as is needed, and nobody starves. Where
no partition is in reach, nobody gives way.

The earliest deadline first saves all where all can be saved. A partition is safe when it gets as many bytes a
second as its records take up of its source's log for each second of it (`need`). Where these rates are more
than the worker copies, all would lose records, one after the other; so the largest are given up until the
rest fits, which saves the most partitions. Given up is also one whose time is over, and one whose time
becomes shorter though others have given way to it for a while: something else holds it up. Those give way
like partitions that have time, and are judged again with each look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mirror.model.datastreams.lanes import LaneKey

REACH_SECONDS: Final = 600.0
LEAST_SHARE: Final = 0.125
"""Of what the worker copies, for all that give way."""
_GROWTH: Final = 0.25
"""Seconds that a partition in reach has to gain in a second, or it lacks bandwidth."""
_SPREAD: Final = 0.25
_LEAST_SPREAD_SECONDS: Final = 5.0
"""Who has more time than the first, by this part of its time or these seconds, gives way to it."""
_LEAST_RATE: Final = 16 * 1024.0
_FADING: Final = 0.98
"""What the worker can copy is the most that it did, less by this with each look."""
_CUT: Final = 0.5
_RISE: Final = 1.25
_SLACK: Final = 1.1
"""Needs and capacity are estimates: while there is time to see, nobody is given up for a smaller excess."""
_CLEAR_SECONDS: Final = 15.0
_ADMISSION: Final = 0.9
"""A partition that was given up is taken back when its need fits in this part of the room."""
_TRIAL_SECONDS: Final = 20.0
_FALLING: Final = -0.05
_AGAIN_SECONDS: Final = 60.0


class CatchUp(NamedTuple):
    """A lane that catches up. `left`: seconds until its source deletes a record that is not copied, None
    where nothing is deleted or that is not known; `growth`: by how much it has grown in a second, None while
    it is new. `need` and `speed`: bytes a second that it must copy for `left` to stay, and that it copies."""

    key: LaneKey
    left: float | None
    growth: float | None
    need: float
    speed: float


@dataclass(frozen=True, slots=True)
class Precedence:
    """Who gives way, and how many bytes a second all of those are left together. `capacity`: what the worker
    can copy in a second, as far as has been seen. `given_up`: with the moment up to which it stays so.
    `in_vain_since`: since when the others get the least, and the time of all that go first becomes
    shorter all the same."""

    waiting: frozenset[LaneKey] = frozenset()
    rate: float = 0.0
    capacity: float = 0.0
    given_up: Mapping[LaneKey, float] = field(default_factory=dict)
    in_vain_since: float | None = None


def decide(before: Precedence, lanes: Sequence[CatchUp], now: float) -> Precedence:
    """Who gives way from now on, in monotonic seconds, among all lanes of a worker that catch up."""
    capacity = max(sum(one.speed for one in lanes), before.capacity * _FADING)
    in_reach = [one for one in lanes if one.left is not None and one.left <= REACH_SECONDS]
    has_others = len(in_reach) < len(lanes)
    given_up = _given_up(before, in_reach, _room(in_reach, capacity, has_others=has_others), now)
    after = replace(before, capacity=capacity, given_up=given_up)
    least = max(LEAST_SHARE * capacity, _LEAST_RATE)
    hopeful = [one for one in in_reach if one.key not in given_up]
    if not any(one.growth is not None and one.growth < _GROWTH for one in hopeful):
        return _relaxed(after, lanes, least)
    bound = _bound(min(_left(one) for one in hopeful))
    waiting = [one for one in lanes if one.key in given_up or _left(one) > bound]
    if not waiting:
        return replace(after, waiting=frozenset(), rate=0.0, in_vain_since=None)
    former = before.rate if before.waiting else sum(one.speed for one in waiting)
    after = replace(after, waiting=frozenset(one.key for one in waiting), rate=max(former * _CUT, least))
    return _tried(after, [one for one in hopeful if one.key not in after.waiting], least, now)


def _left(lane: CatchUp) -> float:
    return lane.left if lane.left is not None else float("inf")


def _bound(first: float) -> float:
    """The most time of those who go together with the first."""
    return first + max(first * _SPREAD, _LEAST_SPREAD_SECONDS)


def _room(in_reach: Sequence[CatchUp], capacity: float, *, has_others: bool) -> float:
    """What their needs may add up to. The others get the least; where there are none, it is theirs too."""
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
    """Those that cannot be saved. Who was given up before comes last, so that they do not take turns."""
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
    """Nobody lacks anything: who gives way gets more, and all of it in the end."""
    rate = max(after.rate * _RISE, least)
    waiting = after.waiting & {one.key for one in lanes}
    if not waiting or rate >= after.capacity:
        waiting, rate = frozenset(), 0.0
    return replace(after, waiting=waiting, rate=rate, in_vain_since=None)


def _tried(after: Precedence, first: Sequence[CatchUp], least: float, now: float) -> Precedence:
    """Where the others get the least, and the time of all that go first becomes shorter for a while, give up
    the largest of them."""
    is_in_vain = all(one.growth is not None and one.growth < _FALLING for one in first)
    if after.rate > least or not is_in_vain:
        return replace(after, in_vain_since=None)
    since = now if after.in_vain_since is None else after.in_vain_since
    if now - since < _TRIAL_SECONDS:
        return replace(after, in_vain_since=since)
    largest = max(first, key=lambda lane: (lane.need, lane.key))
    given_up = {**after.given_up, largest.key: now + _AGAIN_SECONDS}
    return replace(after, given_up=given_up, in_vain_since=None)
