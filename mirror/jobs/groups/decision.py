"""Decides whether a consumer group's position follows from the source to the destination. Pure.

A position is committed only if the group has no members at the destination. It never moves back there unless
the group's own position at the source has moved back since the last synchronisation, and nobody else has
moved the position at the destination since. Offsets are never committed under the name of a share group: its
start offset follows, by the same rules.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from mirror.protocol.control.groups import SHARE, ListedGroup


class FollowReason(StrEnum):
    """Reason why a position was committed at the destination, or was not."""

    NEW = "new"
    """The group had no position at the destination."""
    FORWARD = "forward"
    """The position moved forward."""
    RESET = "reset"
    """The position moved back at the source, and followed."""
    CURRENT = "current"
    """The destination has the position already."""
    MEMBERS = "members there"
    """The group has members at the destination."""
    EXCLUDED = "excluded"
    """The datastream does not select the group."""
    NOT_ALLOWED = "not allowed"
    """The settings of a cluster do not allow the group for datastreams (`clusters.NAME.groups`)."""
    SHARE_GROUP = "share group"
    """The brokers of a cluster do not support start offsets of share groups."""
    OTHER_TYPE = "another type there"
    """Only one of both clusters has a share group of this name."""
    NO_RIGHTS = "no rights"
    """The destination does not authorize the commit, or a cluster does not authorize reads of positions."""
    NOT_MIRRORED = "not mirrored"
    """The datastream has stored no progress of the partition."""
    NOTHING_YET = "nothing mirrored yet"
    """No record of the partition is at the destination."""
    TOPIC_DELETED = "destination topic deleted"
    """The destination topic was deleted, with its mirrored records."""
    WOULD_MOVE_BACK = "would move back"
    """The group is ahead at the destination, and was not reset at the source."""
    TAKEN_OVER = "moved at the destination"
    """The position was changed at the destination, and the group does not read on at the source."""
    TWO_WAY = "two-way"
    """The topic is written at both clusters, so a position at one has no counterpart at the other: a commit
    could skip records that precede it only in the order of the destination."""
    BEFORE_COPIES = "before the copies"
    """The position precedes the first record that the datastream has copied, and the destination has earlier
    records, so a commit could skip those."""
    GONE = "gone"
    """The source cluster no longer has the group."""
    FAILED = "failed"
    """A cluster did not respond, or rejected the request."""

    @property
    def commits(self) -> bool:
        """Return whether to commit the position."""
        return self in _COMMITS

    @property
    def follows(self) -> bool:
        """Return whether the destination has the position of the source."""
        return self in _COMMITS or self is FollowReason.CURRENT


_COMMITS: Final = frozenset({FollowReason.NEW, FollowReason.FORWARD, FollowReason.RESET})


class SyncedPosition(NamedTuple):
    """A position as of the last synchronisation: the offsets that the group has committed on both sides."""

    source: int
    target: int


def group_hindrance(source: ListedGroup, target: ListedGroup) -> FollowReason | None:
    """Return the reason why no position of the group may be committed at the destination, or None.

    `target`: `ListedGroup()` if the destination has no such group.
    """
    is_share = SHARE in {source.kind, target.kind}
    if is_share and source.kind != target.kind and target != ListedGroup():
        return FollowReason.OTHER_TYPE
    return FollowReason.MEMBERS if target.has_members else None


def decide(source: int, target: int | None, translated: int, last: SyncedPosition | None) -> FollowReason:
    """Decide whether to commit `translated` at the destination.

    `source`, `target`: present positions of the group at both clusters; `target` is None if there is none.
    `translated`: position at the destination that corresponds to `source`, or a lower bound. `last`:
    positions as of the last synchronisation, None if there was none.
    """
    if target is None:
        return FollowReason.NEW
    if target == translated:
        return FollowReason.CURRENT
    is_ours = last is not None and target == last.target
    if translated < target:
        is_reset = is_ours and last is not None and source < last.source
        return FollowReason.RESET if is_reset else FollowReason.WOULD_MOVE_BACK
    if last is not None and not is_ours and source == last.source:
        return FollowReason.TAKEN_OVER
    return FollowReason.FORWARD
