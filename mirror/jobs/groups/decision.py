"""Decides whether to commit a consumer group's position from the source at the destination. Pure.

A position is committed only if the group has no members at the destination. A commit moves the position at
the destination backward only if the position at the source has moved backward since the last synchronisation,
and no other client has changed the position at the destination. Share groups never get offsets committed.
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
    """The group was reset at the source; the position at the destination moved backward, too."""
    CURRENT = "current"
    """The position at the destination is already equal to the translated position."""
    MEMBERS = "members there"
    """The group has members at the destination."""
    EXCLUDED = "excluded"
    """The datastream does not select the group."""
    NOT_ALLOWED = "not allowed"
    """The setting `clusters.NAME.groups` of a cluster does not permit datastreams to use the group."""
    SHARE_GROUP = "share group"
    """A share group has no committed offsets."""
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
    """Another client changed the position at the destination, and the position at the source is unchanged."""
    TWO_WAY = "two-way"
    """Producers write to the topic at both clusters. The records are in a different order at each cluster, so
    a translated position could skip records."""
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
        """Return whether the position at the destination corresponds to the position at the source."""
        return self in _COMMITS or self is FollowReason.CURRENT


_COMMITS: Final = frozenset({FollowReason.NEW, FollowReason.FORWARD, FollowReason.RESET})


class SyncedPosition(NamedTuple):
    """Committed offsets of a group at both clusters, as of the last synchronisation."""

    source: int
    target: int


def group_hindrance(source: ListedGroup, target: ListedGroup) -> FollowReason | None:
    """Return the reason why no position of the group may be committed at the destination, None if commits are
    permitted."""
    if SHARE in {source.kind, target.kind}:
        return FollowReason.SHARE_GROUP
    return FollowReason.MEMBERS if target.has_members else None


def decide(source: int, target: int | None, translated: int, last: SyncedPosition | None) -> FollowReason:
    """Decide whether to commit `translated` at the destination.

    `source`, `target`: current positions of the group at both clusters; `target` is None if the group has no
    position there. `translated`: position at the destination that corresponds to `source`, or a lower bound
    of this position. `last`: positions as of the last synchronisation, None before the first.
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
