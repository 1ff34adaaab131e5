"""Demand: what comes to the source of a lane, and what waits there, whatever the lane gets through. Pure.

What a lane copies is what arrives only while it is in time. One that is late is held up, or catches up: then
the end of the source's log says what arrives. Growth of the end is what was copied plus what the backlog grew
by, so an overloaded lane carries more than it copies, and one that catches up carries less.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mirror.model.movement.history import LEAST_SECONDS, LaneHistory

_NONE: Final = (0.0, 0.0)


class Demand(NamedTuple):
    """`arriving`: bytes and messages per second that come to the source. `waiting`: bytes and messages there
    that are late. `is_least`: more may arrive than is known here."""

    arriving: tuple[float, float]
    waiting: tuple[float, float] = _NONE
    is_least: bool = False


def demand(copied: tuple[float, float], history: LaneHistory) -> Demand:
    """Of a lane that copies. `copied`: bytes and messages per second that got through lately.

    Every offset counts as a record of the size that was copied last, so where compaction has left holes the
    backlog is overstated. The arrival of a late lane is not known before its end was seen `LEAST_SECONDS`
    apart and anything of it was copied, and of one whose source does not answer: then what it copies is the
    least.
    """
    newest = history.newest
    if newest is None or history.unheard_since is not None:
        return Demand(copied, is_least=True)
    if history.late_since is None and history.held_since is None and history.rewind is None:
        return Demand(copied)
    size = history.record_bytes
    if size is None:
        return Demand(copied, is_least=True)
    waiting = max(newest.readable_end - max(newest.checkpoint, newest.log_start), 0)
    backlog = (waiting * size, float(waiting)) if history.late_since is not None else _NONE
    first = next((one for one in history.waypoints if one.end > 0), newest)
    seconds, grown = newest.at - first.at, newest.end - first.end
    if seconds < LEAST_SECONDS or grown < 0:
        return Demand(copied, backlog, is_least=True)
    arriving = grown / seconds
    return Demand((arriving * size, arriving), backlog)


def at_least(new: Demand, before: Demand | None) -> Demand:
    """A demand that is only a least, raised to what arrived when that was known last."""
    if not new.is_least or before is None:
        return new
    most = (max(new.arriving[0], before.arriving[0]), max(new.arriving[1], before.arriving[1]))
    return new._replace(arriving=most, waiting=new.waiting if any(new.waiting) else before.waiting)
