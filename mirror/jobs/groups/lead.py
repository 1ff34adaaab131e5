"""Decides which cluster leads in a two-way synchronisation of consumer groups. Pure.

The cluster at which the group has moved since the last synchronisation leads; the position at the other
cluster follows. If the group has moved at both clusters, nothing is committed until it moves at only one. The
two positions are *level* if the same copied records precede both.

A commit is stored before it is sent. After a failure, Headrace therefore recognises its own commits.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mirror.jobs.groups.decision import FollowReason, SyncedPosition, decide
from mirror.protocol.control.groups import ListedGroup


class Side(StrEnum):
    """One of the two clusters of a datastream: the source or the destination."""

    SOURCE = "source"
    DESTINATION = "destination"


class PendingCommit(NamedTuple):
    """A commit whose result is unknown, because no response arrived.

    `leader`: cluster that led. `positions`: positions on both clusters if the commit was applied.
    """

    leader: Side
    positions: SyncedPosition


class Lead(NamedTuple):
    """Cluster whose position was committed at the other cluster in the last synchronisation.

    `seen`: positions when the group was last found to have moved at both clusters; None if it never was.
    `intent`: last commit, if its result is unknown.
    """

    leader: Side = Side.SOURCE
    seen: SyncedPosition | None = None
    intent: PendingCommit | None = None


class Counterpart(NamedTuple):
    """Translation of a group's position to the other cluster. `offset`: None without a translation; `reason`
    says why. `is_exact`: False if a later checkpoint may give a higher offset."""

    offset: int | None = None
    is_exact: bool = False
    reason: FollowReason = FollowReason.NOTHING_YET


class Counterparts(NamedTuple):
    """Both positions of a group, each translated to the other cluster.

    `of_source`: offset at the destination for the source position. `of_target`: offset at the source for the
    destination position. `is_level`: whether the same copied records precede both positions.
    """

    of_source: Counterpart
    of_target: Counterpart = Counterpart()
    is_level: bool = False

    def of(self, leader: Side) -> Counterpart:
        """Return the translation of the position at the leading cluster."""
        return self.of_source if leader is Side.SOURCE else self.of_target


class Ruling(NamedTuple):
    """Decision about a position of a group in two-way synchronisation.

    `leader`: cluster whose position is committed at the other cluster.
    """

    reason: FollowReason
    leader: Side


def after_intent(
    last: SyncedPosition | None, lead: Lead, source: int, target: int | None
) -> tuple[SyncedPosition | None, Lead]:
    """Return the last synchronised offsets and the leading cluster, after resolving a pending commit.

    Determines from the current positions whether the last commit was applied.
    """
    intent = lead.intent
    if intent is None:
        return last, lead
    is_forward = intent.leader is Side.SOURCE
    found, wanted = (target, intent.positions.target) if is_forward else (source, intent.positions.source)
    if found == wanted:
        return intent.positions, Lead(intent.leader)
    if last is None and target is not None:  # the first commit, or the group itself, has set a position
        return intent.positions, Lead(intent.leader, SyncedPosition(source, target))
    return last, lead._replace(intent=None)


def decide_both(
    source: int, target: int | None, found: Counterparts, last: SyncedPosition | None, lead: Lead
) -> Ruling:
    """Decide which cluster leads a position, and whether to commit at the other cluster.

    `source`, `target`: current positions of the group; `target` is None if there is none. `last`: positions
    after the last synchronisation. If None, only the destination can follow.
    """
    if target is None or last is None:
        return _without_history(source, target, found.of_source)
    base = lead.seen or last
    now = {Side.SOURCE: source != base.source, Side.DESTINATION: target != base.target}
    moved = [side for side, has_moved in now.items() if has_moved]
    is_apart = lead.seen is not None
    if len(moved) > 1 or (is_apart and not moved):
        is_equal = found.is_level and found.of_source.is_exact and found.of_target.is_exact
        return Ruling(FollowReason.CURRENT if is_equal else FollowReason.BOTH_CHANGED, lead.leader)
    leader = moved[0] if moved else lead.leader
    if is_apart and _is_reset(leader, base, last):
        return Ruling(FollowReason.CURRENT if found.is_level else FollowReason.BOTH_CHANGED, leader)
    leading, before, following = (
        (source, last.source, target) if leader is Side.SOURCE else (target, last.target, source)
    )
    return Ruling(_reason(leader, found, following, has_reset=not is_apart and leading < before), leader)


def _without_history(source: int, target: int | None, translated: Counterpart) -> Ruling:
    if translated.offset is None:
        return Ruling(translated.reason, Side.SOURCE)
    return Ruling(decide(source, target, translated.offset, None), Side.SOURCE)


def _is_reset(leader: Side, seen: SyncedPosition, last: SyncedPosition) -> bool:
    """Return whether the group was reset at the other cluster before it moved at the leading cluster. A reset
    must not be overruled."""
    return seen.target < last.target if leader is Side.SOURCE else seen.source < last.source


def _reason(leader: Side, found: Counterparts, following: int, *, has_reset: bool) -> FollowReason:
    """Return whether to commit the translation of the leading position, and why.

    `has_reset`: whether the leading position has moved back since the last synchronisation.
    """
    offset, _, reason = found.of(leader)
    if offset is None:
        return reason
    if offset == following or found.is_level:
        return FollowReason.CURRENT
    is_forward = leader is Side.SOURCE
    if offset > following:
        return FollowReason.FORWARD if is_forward else FollowReason.RETURNED
    if has_reset:
        return FollowReason.RESET if is_forward else FollowReason.RESET_THERE
    return FollowReason.WOULD_MOVE_BACK


def without_members(ruling: Ruling, at_source: ListedGroup, at_destination: ListedGroup) -> Ruling:
    """Return the decision, but without a commit at a cluster where the group has members.

    `at_source`, `at_destination`: description of the group at the source and at the destination.
    """
    if ruling.reason.commits:
        if ruling.leader is Side.SOURCE and at_destination.has_members:
            return ruling._replace(reason=FollowReason.MEMBERS)
        if ruling.leader is Side.DESTINATION and at_source.has_members:
            return ruling._replace(reason=FollowReason.MEMBERS_HERE)
    return ruling
