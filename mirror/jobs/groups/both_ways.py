"""Synchronises consumer groups in both directions.

When a group has moved to the destination, its positions there are committed at the source.

Each pass reads the positions at both clusters, and `lead.py` decides which cluster leads. Before a commit,
the pass stores the new positions, and reads the positions that the commit replaces again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError
from mirror.jobs.groups.decision import FollowReason, SyncedPosition, group_hindrance
from mirror.jobs.groups.follower import (
    FollowJob,
    GroupFollower,
    is_exact_move,
    refusal_of,
    untranslated_reason,
)
from mirror.jobs.groups.lead import (
    Counterpart,
    Counterparts,
    Lead,
    PendingCommit,
    Side,
    after_intent,
    decide_both,
    without_members,
)
from mirror.jobs.groups.log import GroupLog
from mirror.jobs.groups.record import FollowedGroup, FollowedPosition, failed_group
from mirror.jobs.groups.source import GroupSnapshot, with_present
from mirror.jobs.stored_lanes import StoredLanes
from mirror.jobs.translate_job import PositionMove, Translator, committed_at
from mirror.lane.offset_map import Precision
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code
from mirror.protocol.control.groups import ListedGroup
from mirror.replication.context import EngineContext


class TwoWayFollower(GroupFollower):
    """Synchronises the groups of one datastream in both directions."""

    def __init__(self, context: EngineContext, job: FollowJob, log: GroupLog) -> None:
        super().__init__(context, job, log)
        self._intended: dict[str, FollowedGroup] = {}

    async def _snapshots(
        self, names: Sequence[str], here: Mapping[str, ListedGroup], there: Mapping[str, ListedGroup]
    ) -> list[GroupSnapshot]:
        """Read the current positions of the groups at both clusters."""
        snapshots = await super()._snapshots(names, here, there)
        kinds = {}
        for snapshot in snapshots:
            known = snapshot.at_destination if snapshot.at_source is None else snapshot.at_source
            is_nowhere = not snapshot.offsets and snapshot.at_destination == ListedGroup()
            is_other = group_hindrance(known, snapshot.at_destination) is FollowReason.OTHER_TYPE
            if snapshot.error is None and not is_nowhere and not is_other:
                kinds[snapshot.name] = known.kind
        return await with_present(self._context.cluster(self._job.destination), snapshots, kinds)

    async def _with_present(self, snapshots: Sequence[GroupSnapshot]) -> Sequence[GroupSnapshot]:
        """Return the groups unchanged, because they already include their positions at the destination."""
        return snapshots

    def _positioned(self, before: FollowedGroup, snapshot: GroupSnapshot) -> FollowedGroup:
        """Return the group with its current positions, including positions that the source has deleted.

        Kafka deletes the positions of a group without members after a week.
        """
        group = super()._positioned(before, snapshot)
        if snapshot.error is not None or not snapshot.present:
            return group
        deleted = {
            place: position
            for place, position in before.positions.items()
            if place not in snapshot.offsets and position.synced is not None
        }
        if not deleted:
            return group
        return replace(group, reason=None, positions={**group.positions, **deleted})

    async def _commit_moves(
        self, group: FollowedGroup, before: FollowedGroup, snapshot: GroupSnapshot, translator: Translator
    ) -> FollowedGroup:
        """Commit each position of the leading cluster at the other one. Return the new state of the group."""
        group = replace(
            group,
            positions={
                place: self._ruled(place, position, snapshot, translator)
                for place, position in group.positions.items()
            },
        )
        if not any(position.reason.commits for position in group.positions.values()):
            is_gone = snapshot.at_source is None
            return replace(before, reason=FollowReason.GONE, detail="") if is_gone else group
        await super()._save([group], [before])
        self._intended[group.group] = group
        try:
            for leader in Side:
                group = await self._commit_led(group, leader, snapshot.offsets)
        except HeadraceError as error:
            return failed_group(group, error)
        return group

    def _ruled(
        self,
        place: TopicPartition,
        position: FollowedPosition,
        snapshot: GroupSnapshot,
        translator: Translator,
    ) -> FollowedPosition:
        is_deleted = place not in snapshot.offsets
        source = source_before_deletion(position) if is_deleted else position.source
        move = self._moved(translator, place, source)
        found = position._replace(source=source, target=snapshot.present.get(move.target), copy=move.target)
        counterparts = counterparts_of(translator.stored, LaneKey(self._job.state, place), move, found.target)
        decided = ruled(found, counterparts, snapshot.at_source or ListedGroup(), snapshot.at_destination)
        if is_deleted and not is_led_by(decided, Side.DESTINATION):
            return position._replace(target=found.target, reason=FollowReason.GONE)
        return decided

    async def _commit_led(
        self, group: FollowedGroup, leader: Side, offsets: Mapping[TopicPartition, int]
    ) -> FollowedGroup:
        """Commit the positions led by one cluster at the other one. Return the new state of the group.

        A position that has changed at the other cluster since the last read is not replaced. `offsets`:
        positions at the source as they were read.
        """
        led = {place: position for place, position in group.positions.items() if is_led_by(position, leader)}
        if not led:
            return group
        is_forward = leader is Side.SOURCE
        cluster = self._context.cluster(self._job.destination if is_forward else self._job.source)
        present = await self._fresh_positions(cluster, group)
        wanted = {}
        for place, position in led.items():
            written, known = (position.copy, position.target) if is_forward else (place, offsets.get(place))
            if present.get(written) == known:
                _, intended = _intent_of(position)
                wanted[written] = intended.target if is_forward else intended.source
        codes = await self._commit(cluster, group, wanted) if wanted else {}
        changed = {}
        for place, position in led.items():
            written = position.copy if is_forward else place
            if written in wanted:
                changed[place] = confirmed(position, codes.get(written))
            else:
                changed[place] = position._replace(reason=FollowReason.BOTH_CHANGED)
        return replace(group, positions={**group.positions, **changed})

    async def _fresh_positions(self, cluster: Cluster, group: FollowedGroup) -> Mapping[TopicPartition, int]:
        """Read the positions of a group immediately before a commit. Raises TimedOut if this takes too
        long."""
        asked_at = self._context.loop.now()
        present = await committed_at(cluster, group.group, group.kind)
        self._require_fresh(asked_at, group, cluster)
        return present

    async def _save(self, found: Sequence[FollowedGroup], before: Sequence[FollowedGroup]) -> None:
        """Store the states of groups that have changed since they were last stored."""
        await super()._save(found, [self._intended.pop(group.group, group) for group in before])


def counterparts_of(
    stored: StoredLanes, key: LaneKey, move: PositionMove, target: int | None
) -> Counterparts:
    """Translate the positions of a group at both clusters. `move`: translation of the position at the source.
    The position at the destination becomes the source offset of the next copied record."""
    if not move.is_translated:
        reason = untranslated_reason(move)
        return Counterparts(Counterpart(reason=reason), Counterpart(reason=reason))
    of_source = Counterpart(move.becomes, is_exact_move(move))
    if target is None:
        return Counterparts(of_source)
    progress = stored.lanes[key]
    back = Translator(stored, back=True).move_in(key, target)
    is_before = move.precision == Precision.BEFORE and move.offset < progress.ledger.start
    if is_before or back.precision == Precision.BEFORE:  # earlier records of the source might be unread
        return Counterparts(of_source, Counterpart(reason=FollowReason.BEFORE_COPIES))
    is_exact = back.precision != Precision.END or target <= progress.target_end
    level = Translator(stored, back=False).move_in(key, back.becomes).becomes == move.becomes
    return Counterparts(of_source, Counterpart(back.becomes, is_exact), level)


def ruled(
    position: FollowedPosition, found: Counterparts, at_source: ListedGroup, at_destination: ListedGroup
) -> FollowedPosition:
    """Decide which position of a group to commit. Return the position with the decision.

    `here`, `there`: description of the group at the source and at the destination.
    """
    source, target = position.source, position.target
    last, lead = after_intent(position.synced, position.lead or Lead(), source, target)
    ruling = without_members(decide_both(source, target, found, last, lead), at_source, at_destination)
    offset, is_exact, _ = found.of(ruling.leader)
    if ruling.reason.commits:
        assert offset is not None, "a commit needs an offset"
        if ruling.leader is Side.SOURCE:
            intended = SyncedPosition(source, offset)
        else:
            assert target is not None, "the destination leads with a position"
            intended = SyncedPosition(offset, target)
        lead = lead._replace(intent=PendingCommit(ruling.leader, intended))
    elif target is not None and ruling.reason is FollowReason.CURRENT:
        last, lead = SyncedPosition(source, target), Lead(ruling.leader)
    elif target is not None and ruling.reason is FollowReason.BOTH_CHANGED:
        lead = lead._replace(seen=SyncedPosition(source, target))
    return position._replace(reason=ruling.reason, is_exact=is_exact, synced=last, lead=lead)


def source_before_deletion(position: FollowedPosition) -> int:
    """Return the source position as of the last synchronisation, if the source has deleted the position of
    the group."""
    seen = None if position.lead is None else position.lead.seen
    known = seen or position.synced
    return position.source if known is None else known.source


def is_led_by(position: FollowedPosition, leader: Side) -> bool:
    """Return whether a position led by `leader` has yet to be committed at the other cluster."""
    intent = None if position.lead is None else position.lead.intent
    return position.reason.commits and intent is not None and intent.leader is leader


def confirmed(position: FollowedPosition, code: int | None) -> FollowedPosition:
    """Return the position updated with the result of its commit.

    `code`: error code, None if the response has none. Unless the commit was rejected, the next pass
    determines its result.
    """
    leader, intended = _intent_of(position)
    if code == Code.NONE:
        return position._replace(
            source=intended.source, target=intended.target, synced=intended, lead=Lead(leader)
        )
    reason = refusal_of(code)
    if reason is FollowReason.MEMBERS and leader is Side.DESTINATION:
        reason = FollowReason.MEMBERS_HERE
    lead = position.lead
    if lead is not None and reason is not FollowReason.FAILED:
        lead = lead._replace(intent=None)
    return position._replace(reason=reason, lead=lead)


def _intent_of(position: FollowedPosition) -> PendingCommit:
    assert position.lead is not None, "a decision has a lead"
    assert position.lead.intent is not None, "a commit is intended before it is sent"
    return position.lead.intent
