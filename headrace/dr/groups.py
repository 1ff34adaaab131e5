"""Moves consumer groups in a switch-over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.clusters.audits import audit_job
from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError, NotFound, NothingStored, Refused, TimedOut
from mirror.jobs.dr.operation import MovedGroup, Switchover
from mirror.jobs.groups.decision import FollowReason, group_hindrance
from mirror.jobs.groups.failover import plan_without_source, stored_groups
from mirror.jobs.groups.log import GroupLog
from mirror.jobs.groups.source import listed
from mirror.jobs.stored_lanes import StoredLanes, stored_and_current, stored_to_translate
from mirror.jobs.translate_job import (
    AHEAD,
    GroupPositions,
    PositionMove,
    TranslateJob,
    Translator,
    apply_translation,
    committed_at,
    group_positions,
    moves_of,
)
from mirror.lane.offset_map import Precision
from mirror.model.bounds import shown
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.expressions import expression_of
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.protocol.control.groups import SHARE, ListedGroup
from mirror.replication.context import EngineContext
from mirror.wording import duration_text, first_few

_FOUND = (Precision.EXACT, Precision.NEXT, Precision.END)


@dataclass(frozen=True)
class GroupMove:
    """Commits the positions of consumer groups at the target of a switch-over.

    `previous`: datastreams of the opposite direction before the last switch-over, by configured name. Older
    records were copied from the target by these datastreams, so positions in older records are translated
    with their offset maps.
    """

    bench: EngineContext
    operation: Switchover
    previous: Mapping[str, str]
    present: Mapping[str, str]

    async def move(self, selection: str) -> tuple[list[MovedGroup], list[str]]:
        """Commit the positions of the selected consumer groups. Return the groups, and notes for the
        operator.

        Raises Refused if a group has members or another type at the target, or a position that cannot be
        translated; TimedOut if checkpoints have not reached all positions yet; NotAuthorized, Unreachable.
        """
        expression = expression_of("groups", selection)
        origin = self.bench.cluster(ClusterRef(self.operation.origin))
        target = self.bench.cluster(ClusterRef(self.operation.target))
        found, there = await self.bench.loop.together([listed(origin), listed(target)])
        if not found.is_complete:
            raise TimedOut(f"not all brokers of {origin.name} list their groups")
        moved: list[MovedGroup] = []
        remarks: list[str] = []
        for name, group in sorted(found.groups.items()):
            if not expression.matches(name):
                continue
            reason = await share_hindrance(target, name, group)
            if reason:
                remarks.append(reason)
                continue
            if group.has_members:
                remarks.append(f"group {name} still has members on {origin.name}")
            moves = await self._move_group(name, group, there.groups.get(name, ListedGroup()))
            ahead = [str(move.origin) for move in moves if move.skipped == AHEAD]
            if ahead:
                where = f"on {self.operation.target} in {first_few(ahead)}"
                remarks.append(f"group {name} is already ahead {where}")
            if count := sum(move.is_translated for move in moves):
                outcome = _moved(name, count, group.kind, ahead=len(ahead), has_members=group.has_members)
                moved.append(outcome)
                remarks += _redelivery(outcome)
        return moved, remarks

    async def _move_group(
        self, name: str, at_origin: ListedGroup, at_target: ListedGroup
    ) -> list[PositionMove]:
        """Translate and commit the positions of a consumer group. Return the translations.

        `at_origin`, `at_target`: description of the group at the origin and at the target.
        """
        done: list[PositionMove] = []
        for configured, datastream in self.present.items():
            definition = self.operation.definitions[datastream]
            origin, target = ClusterRef(self.operation.origin), ClusterRef(self.operation.target)
            job = TranslateJob(audit_job(definition).state, origin, target, name, kind=at_origin.kind)
            stored = await stored_to_translate(self.bench, origin, target, job.state)
            topics = audit_job(definition).selection
            positions = await group_positions(self.bench, job)
            present = {place: at for place, at in positions.origin.items() if topics.matches(place.topic)}
            try:
                moves = moves_of(job, stored, GroupPositions(present, positions.target))
            except NotFound:  # the group has no position in topics of this datastream
                continue
            if group_hindrance(at_origin, at_target) is FollowReason.OTHER_TYPE:
                raise Refused(
                    f"group {name} has another type on {target}",
                    advice="rename one of the two groups, or exclude it from dr.NAME.groups",
                )
            former = await self._former(configured)
            moves = [self._checked(move, stored, former, job) for move in moves]
            if behind := [str(move.origin) for move in moves if move.is_left_behind or move.behind]:
                names = first_few(behind)
                raise TimedOut(f"group {name} is ahead of the checkpoint in {names}")
            await apply_translation(self.bench, job, moves)
            done += moves
        return done

    async def move_stored(self, selection: str) -> tuple[list[MovedGroup], list[str]]:
        """Commit positions that the target has stored, without access to the origin. Raises Unreachable.

        Returns the groups with committed positions, and notes for the operator.
        """
        expression = expression_of("groups", selection)
        target = ClusterRef(self.operation.target)
        log = await stored_groups(self.bench, target)
        remarks: list[str] = []
        moved: dict[str, MovedGroup] = {}
        for datastream in self.present.values():
            state = audit_job(self.operation.definitions[datastream]).state
            for name in sorted(log.names(GroupName(state))):
                if expression.matches(name):
                    job = TranslateJob(state, ClusterRef(self.operation.origin), target, name)
                    group, said = await self._move_stored_group(job, log)
                    before = moved.get(name)
                    total = group.positions + (before.positions if before is not None else 0)
                    moved[name] = group.model_copy(update={"positions": total})
                    remarks += said
        if not moved:
            remarks.append(f"no group with stored positions at {target} matches {selection}")
        groups = [group for group in moved.values() if group.positions]
        return groups, remarks + [text for group in groups for text in _redelivery(group)]

    async def _move_stored_group(self, job: TranslateJob, log: GroupLog) -> tuple[MovedGroup, list[str]]:
        group = f"group {shown(job.group)}"
        try:
            found = await plan_without_source(self.bench, job, log)
            unknown = [move for move in found.moves if self._is_unknown(move)]
            known = [move for move in found.moves if not self._is_unknown(move)]
            await apply_translation(self.bench, replace(job, kind=found.kind), known)
        except HeadraceError as error:
            if error.retriable:
                raise
            return _moved(job.group, 0, ""), [f"{group} does not move: {error}"]
        seconds = max(self.bench.clock.now_ms() - found.as_of_ms, 0) / 1000
        remarks = [f"{group} has the positions of {duration_text(seconds)} ago"]
        if unknown:
            named = first_few([str(move.origin) for move in unknown])
            remarks.append(f"{group} has no position on {job.destination} in {named}: reset it by time")
        count = sum(move.is_translated for move in known)
        return _moved(job.group, count, found.kind, has_members=True), remarks

    def _is_unknown(self, move: PositionMove) -> bool:
        """Return whether a position lacks a translation because its offset map was on a lost cluster.

        Positions from before the last switch-over need the offset map of the opposite copy, which is stored
        on the lost origin.
        """
        return move.is_left_behind or (bool(self.previous) and move.precision == Precision.BEFORE)

    async def _former(self, configured: str) -> StoredLanes | None:
        """Return the stored lanes of the datastream that copied to the origin before; None if there was
        none."""
        name = self.previous.get(configured)
        if name is None:
            return None
        try:
            return await stored_and_current(self.bench, ClusterRef(self.operation.origin), name)
        except NothingStored:
            return None

    def _checked(
        self, move: PositionMove, stored: StoredLanes, former: StoredLanes | None, job: TranslateJob
    ) -> PositionMove:
        """Return the translation of a group's position. Raises Refused if it precedes all copied records.

        A position before the first record of the current copy is translated with the previous copy.
        """
        lane = stored.lanes.get(LaneKey(GroupName(job.state), move.origin))
        if lane is None or move.offset >= lane.ledger.start or former is None:
            return move
        found = Translator(former, back=True).move(move.origin, move.offset)
        if found.precision not in _FOUND:
            raise Refused(
                f"the position of group {job.group} in {move.origin} precedes the records copied since the"
                " last two switch-overs",
                advice="wait until the group has read further, or exclude the group from dr.NAME.groups",
            )
        present = move.present
        is_ahead = present is not None and present > found.becomes
        return replace(found, present=present, skipped=AHEAD if is_ahead else "")


async def share_hindrance(target: Cluster, name: str, group: ListedGroup) -> str:
    """Explain why a share group cannot move to the target; empty if it can. Raises NotAuthorized,
    Unreachable."""
    if group.kind != SHARE:
        return ""
    try:
        await committed_at(target, name, SHARE)
    except Refused as error:  # the request is unknown
        return f"share group {name} does not move: {error}"
    return ""


def _moved(name: str, positions: int, kind: str, *, ahead: int = 0, has_members: bool = False) -> MovedGroup:
    return MovedGroup(
        name=name, positions=positions, ahead=ahead, has_members=has_members, may_redeliver=kind == SHARE
    )


def _redelivery(group: MovedGroup) -> list[str]:
    return [redelivery_note(group.name)] if group.may_redeliver else []


def redelivery_note(name: str) -> str:
    """Return a note for the operator: which records a share group gets again after it has moved."""
    return f"share group {name} may receive records after its start offset again"
