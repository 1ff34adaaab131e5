"""Decides whether to commit a position of a consumer group at the destination. Pure.

A position is committed only if the group has no members at the destination. The position at the destination
moves back only if two conditions hold since the last synchronisation: the position at the source has moved
back, and no other client has changed the position at the destination. For a share group, the same rules apply
to its start offset; no offset is committed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from mirror.protocol.control.groups import SHARE, ListedGroup


class FollowReason(StrEnum):
    """Reason for committing a position at the destination, or for not committing it."""

    NEW = "new"
    """The group had no position at the destination."""
    FORWARD = "forward"
    """The position of the group moved forward at the source."""
    RESET = "reset"
    """The group was reset at the source, so the position at the destination moves back, too."""
    RETURNED = "forward from the destination"
    """The group has read on at the destination, so the position at the source moves forward."""
    RESET_THERE = "reset at the destination"
    """The group was reset at the destination, so the position at the source moves back, too."""
    CURRENT = "current"
    """The position at the destination is already equal to the translated position."""
    MEMBERS = "members there"
    """The group has members at the destination."""
    MEMBERS_HERE = "members at the source"
    """The group has moved at the destination, but still has members at the source."""
    EXCLUDED = "excluded"
    """The datastream does not select the group."""
    NOT_ALLOWED = "not allowed"
    """The setting `clusters.NAME.groups` of a cluster does not permit datastreams to use the group."""
    SHARE_GROUP = "share group"
    """The brokers of a cluster do not support start offsets of share groups."""
    OTHER_TYPE = "another type there"
    """The group is a share group on only one of the two clusters."""
    NO_RIGHTS = "no rights"
    """Headrace has no right to commit at the destination, or to read positions at one of the clusters."""
    NOT_MIRRORED = "not mirrored"
    """The datastream has stored no progress for the partition."""
    NOTHING_YET = "nothing mirrored yet"
    """No record of the partition has been mirrored yet."""
    TOPIC_DELETED = "destination topic deleted"
    """The destination topic was deleted, and the mirrored records with it."""
    WOULD_MOVE_BACK = "would move back"
    """The position at the destination is ahead, and the group was not reset at the source."""
    TAKEN_OVER = "moved at the destination"
    """Another client changed the position at the destination; the position at the source has not changed."""
    BOTH_CHANGED = "changed at both clusters"
    """The group has moved at both clusters since the last synchronisation."""
    TWO_WAY = "two-way"
    """The topic is written on both clusters, so positions have no exact counterpart. A commit could skip
    records."""
    BEFORE_COPIES = "before the copies"
    """The position precedes the first copied record, and the destination has earlier records, which a commit
    could skip."""
    GONE = "gone"
    """The source cluster no longer has the group."""
    FAILED = "failed"
    """A cluster did not respond, or rejected the request."""

    @property
    def commits(self) -> bool:
        """Return whether a position is committed; `RETURNED` and `RESET_THERE` commit at the source."""
        return self in _COMMITS

    @property
    def follows(self) -> bool:
        """Return whether the positions of the group on both clusters correspond to each other."""
        return self in _COMMITS or self is FollowReason.CURRENT


_COMMITS: Final = frozenset(
    {
        FollowReason.NEW,
        FollowReason.FORWARD,
        FollowReason.RESET,
        FollowReason.RETURNED,
        FollowReason.RESET_THERE,
    }
)


class SyncedPosition(NamedTuple):
    """Offsets committed on both clusters when a position was last synchronised."""

    source: int
    target: int


def group_hindrance(source: ListedGroup, target: ListedGroup) -> FollowReason | None:
    """Return the reason why no position of the group may be committed at the destination, or None if it may.

    `target`: `ListedGroup()` if the group does not exist at the destination.
    """
    is_share = SHARE in {source.kind, target.kind}
    if is_share and source.kind != target.kind and target != ListedGroup():
        return FollowReason.OTHER_TYPE
    return FollowReason.MEMBERS if target.has_members else None


def decide(source: int, target: int | None, translated: int, last: SyncedPosition | None) -> FollowReason:
    """Decide whether to commit the translated position of a group at the destination.

    `source`, `target`: current positions of the group on both clusters; `target` is None if there is none.
    `translated`: the position `source`, translated to the destination, or a lower bound. `last`: positions
    after the last synchronisation, None before the first.
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
