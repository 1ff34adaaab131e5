"""Synchronises consumer groups in repeated passes.

A pass reads the groups of both clusters, translates their positions, and commits and stores the results.

A pass reads the positions at the source before the offset maps, so that the maps cover as many positions as
possible. The follower reads the position at the destination immediately before the commit. If the group has
gained members, the group coordinator rejects the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple
from zlib import crc32

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Promise
from mirror.client.lookup.coordinators import COORDINATE
from mirror.errors import HeadraceError, TimedOut
from mirror.jobs.groups.decision import FollowReason, SyncedPosition, decide, group_hindrance
from mirror.jobs.groups.lazy_lanes import LazyLanes
from mirror.jobs.groups.log import GroupLog
from mirror.jobs.groups.record import (
    FollowedGroup,
    FollowedPosition,
    GroupKeys,
    StoredGroups,
    failed_group,
    read_groups,
    write_group,
    write_round,
)
from mirror.jobs.groups.settled_groups import SettledGroups
from mirror.jobs.groups.source import (
    GroupListing,
    GroupSnapshot,
    group_snapshots,
    listed,
    require_source,
    with_present,
)
from mirror.jobs.progress_logs import progress_log
from mirror.jobs.stored_lanes import StoredLanes, current_ids
from mirror.jobs.translate_job import GONE, NOT_MIRRORED, PositionMove, Translator, position_commit
from mirror.lane.offset_map import Precision
from mirror.model.datastreams.consumer_groups import FollowingGroups
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection
from mirror.protocol.codes import Code
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.groups import ListedGroup
from mirror.protocol.control.share_groups import GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP
from mirror.replication.context import EngineContext

_READ_AT_ONCE: Final = 200
"""Maximum number of groups whose positions are kept in memory."""
_AT_ONCE: Final = 16
"""Maximum number of groups with commits in flight."""
_COMMIT_CONNECTIONS: Final = 4
"""Number of connections to a coordinator for commits.

A coordinator handles the requests of a connection one at a time, and responds to a commit only after
replication.
"""
_LISTING_SECONDS: Final = 1.0
"""Time for which a list of groups is reused.

If a group gains members in this time, the coordinator rejects the commit.
"""
_FRESH_SECONDS: Final = 5.0
"""Maximum time between the read of a position at the destination and the commit.

A process that was frozen for longer may no longer be the leader, and must not overwrite newer positions.
"""
_NO_RIGHTS: Final = frozenset({Code.GROUP_AUTHORIZATION_FAILED, Code.TOPIC_AUTHORIZATION_FAILED})
_UNTRANSLATED: Final = {
    NOT_MIRRORED: FollowReason.NOT_MIRRORED,
    GONE: FollowReason.TOPIC_DELETED,
    FollowReason.TWO_WAY: FollowReason.TWO_WAY,
    FollowReason.BEFORE_COPIES: FollowReason.BEFORE_COPIES,
    FollowReason.FAILED: FollowReason.FAILED,
}


@dataclass(frozen=True)
class FollowJob:
    """Parameters for synchronising the consumer groups of a datastream.

    `keys`: record keys of the stored state. `has_other_writers`: other producers may write to the destination
    topics. `opposite`: topic selection and topic naming of each datastream in the opposite direction.
    """

    keys: GroupKeys
    source: ClusterRef
    destination: ClusterRef
    topics: TopicSelection
    naming: TopicNaming
    groups: FollowingGroups
    has_other_writers: bool = False
    opposite: tuple[tuple[TopicSelection, TopicNaming], ...] = ()

    def is_two_way(self, topic: str) -> bool:
        """Return whether a destination topic may contain records of other producers, or is mirrored back."""
        copy = self.naming.destination(topic)
        return self.has_other_writers or any(
            selection.matches(copy) and naming.destination(copy) == topic
            for selection, naming in self.opposite
        )

    @property
    def state(self) -> GroupName:
        """Name under which the progress of the datastream is stored: its group of datastreams."""
        return self.keys.state


class RoundReport(NamedTuple):
    """Result of one pass over the consumer groups of a datastream.

    `groups`: number of groups with positions in the topics of the datastream. `hindered`: groups that were
    not synchronised, with the first reason. `is_complete`: whether every broker of the source has listed its
    groups.
    """

    groups: int
    hindered: Mapping[str, FollowReason]
    is_complete: bool


async def stored_groups(context: EngineContext, destination: ClusterRef, keys: GroupKeys) -> StoredGroups:
    """Return the stored state of a datastream's groups. Raises Unreachable, NewerFormat."""
    log = progress_log(GroupLog, context, destination)
    await log.catch_up()
    return read_groups(keys, log.records_under(keys.state))


class GroupFollower:
    """Synchronises the groups of one datastream. Used within the loop of the context."""

    def __init__(self, context: EngineContext, job: FollowJob, log: GroupLog) -> None:
        self._context = context
        self._job = job
        self._log = log
        self._lanes = LazyLanes(log, job.state, job.topics)
        self._selected: list[str] = []
        self._listings = (GroupListing({}, False), GroupListing({}, False))
        self._listed_until = -inf
        self._listing: Promise[None] | None = None
        self._is_frequent = job.groups.interval_seconds < _LISTING_SECONDS
        self._settled = SettledGroups(_LISTING_SECONDS if self._is_frequent else 0.0)

    @property
    def now_ms(self) -> int:
        """Current time in epoch milliseconds."""
        return self._context.clock.now_ms()

    async def sync(self, names: Sequence[str], listings: tuple[GroupListing, GroupListing]) -> RoundReport:
        """Synchronise the named consumer groups, and store the result at the destination.

        `listings`: groups of the source and of the destination.

        Raises Unreachable, NotAuthorized or UnsafeProgressTopic if no group can be synchronised.
        """
        here, there = listings
        hindered: dict[str, FollowReason] = {}
        count = 0
        for start in range(0, len(names), _READ_AT_ONCE):
            snapshots = await self._snapshots(names[start : start + _READ_AT_ONCE], here.groups, there.groups)
            require_source(snapshots)
            now = self._context.loop.now()
            settled = {
                snapshot.name: known
                for snapshot in snapshots
                if (known := self._settled.of(snapshot, now)) is not None
            }
            due = [snapshot for snapshot in snapshots if snapshot.name not in settled]
            found = await self._sync_changed(due) if due else []
            for snapshot, group in zip(due, found, strict=True):
                self._settled.note(snapshot, group, self._context.loop.now())
                count += bool(group.positions) or group.reason is not None
            count += sum(known.has_positions for known in settled.values())
            reasons = {name: known.hindrances for name, known in settled.items()}
            for name, several in {**reasons, **{group.group: group.hindrances for group in found}}.items():
                for reason in several:
                    if reason is not FollowReason.GONE:
                        hindered.setdefault(name, reason)
        return RoundReport(count, hindered, here.is_complete)

    async def round(self, is_hidden: Callable[[str], bool]) -> RoundReport:
        """Synchronise the consumer groups that the datastream selects, except hidden groups. Raises the
        errors of `sync`."""
        is_listed = await self._refresh_lists(is_hidden)
        report = await self.sync(self._selected, self._listings)
        if is_listed and report.is_complete and self._log.read_error() is None:
            at_ms = self.now_ms
            await self._log.save([(self._job.keys.of_round, write_round(at_ms))], at_ms)
        return report

    async def _refresh_lists(self, is_hidden: Callable[[str], bool]) -> bool:
        """Start listing the groups if the current list is too old. Return whether a new list is in use.

        Frequent passes use the previous list until the new one is complete.
        """
        if self._listing is None and self._context.loop.now() >= self._listed_until:
            self._listing = self._context.loop.spawn(self._list(is_hidden))
            self._listing.is_awaited = True  # the request may fail before the pass that awaits it
        listing, must_wait = self._listing, not self._is_frequent or self._listed_until == -inf
        if listing is None or not (listing.is_done or must_wait):
            return False
        self._listing = None
        await listing
        return True

    async def _list(self, is_hidden: Callable[[str], bool]) -> None:
        """List the consumer groups of both clusters, and select the groups to synchronise."""
        source = self._context.cluster(self._job.source)
        destination = self._context.cluster(self._job.destination)
        listed_until = self._context.loop.now() + (_LISTING_SECONDS if self._is_frequent else 0.0)
        await self._log.catch_up(())
        self._lanes.refresh()
        here, there = await self._context.loop.together([listed(source), listed(destination)])
        names = set(here.groups)
        if here.is_complete:
            names |= self._job.keys.groups(self._log.records_under(self._job.state))
        selected = [name for name in sorted(names) if self._job.groups.selects(name) and not is_hidden(name)]
        self._settled.keep(selected)
        self._selected, self._listings, self._listed_until = selected, (here, there), listed_until

    async def _snapshots(
        self, names: Sequence[str], here: Mapping[str, ListedGroup], there: Mapping[str, ListedGroup]
    ) -> list[GroupSnapshot]:
        """Read the current positions of the groups at the source.

        `here`, `there`: groups of the source and of the destination.
        """
        source = self._context.cluster(self._job.source)
        return await group_snapshots(source, names, (here, there), self._job.topics)

    async def _with_present(self, snapshots: Sequence[GroupSnapshot]) -> Sequence[GroupSnapshot]:
        """Read the positions at the destination immediately before the commits."""
        kinds = {group.name: group.at_source.kind for group in snapshots if group.at_source and group.offsets}
        return await with_present(self._context.cluster(self._job.destination), snapshots, kinds)

    async def _translator(self) -> Translator:
        """Read the stored lanes and the current ids of their topics."""
        topics = {self._job.naming.destination(key.partition.topic) for key in self._lanes}
        reading = self._context.loop.spawn(self._log.catch_up(()))
        reading.is_awaited = True  # the task may fail before it is awaited below
        ids = await current_ids(self._context.cluster(self._job.destination), topics)
        await reading
        self._lanes.refresh_if_grown()
        return Translator(StoredLanes(self._lanes, ids), back=False)

    async def _sync_changed(self, snapshots: Sequence[GroupSnapshot]) -> list[FollowedGroup]:
        """Commit and store the positions of consumer groups, and return their states."""
        translator = await self._translator()
        done: list[FollowedGroup] = []
        for start in range(0, len(snapshots), _AT_ONCE):
            chunk = snapshots[start : start + _AT_ONCE]
            keys = {snapshot.name: self._job.keys.of(snapshot.name) for snapshot in chunk}
            unread = {name: error for name, key in keys.items() if (error := self._log.read_error(key))}
            before = [
                failed_group(FollowedGroup(name), unread[name])
                if name in unread
                else self._log.group(key, name)
                for name, key in keys.items()
            ]
            found = await self._context.loop.together(
                self._follow(
                    old if old.group in unread else self._positioned(old, snapshot),
                    old,
                    with_target,
                    translator,
                )
                for snapshot, with_target, old in zip(
                    chunk, await self._with_present(chunk), before, strict=True
                )
            )
            await self._save(found, before)  # leaves out unread groups, which are unchanged
            done += found
        return done

    def _positioned(self, before: FollowedGroup, snapshot: GroupSnapshot) -> FollowedGroup:
        """Return the group with its current positions at the source."""
        if snapshot.at_source is None:
            return replace(before, reason=FollowReason.GONE, detail="")
        if snapshot.error is not None:
            return failed_group(replace(before, kind=snapshot.at_source.kind), snapshot.error)
        positions = {}
        for place, offset in snapshot.offsets.items():
            old = before.positions.get(place)
            copy = self._job.naming.copy_of(place)
            new = FollowedPosition(offset, None, copy, FollowReason.NOTHING_YET)
            positions[place] = new if old is None else old._replace(source=offset)
        return replace(before, kind=snapshot.at_source.kind, reason=None, detail="", positions=positions)

    async def _follow(
        self, group: FollowedGroup, before: FollowedGroup, snapshot: GroupSnapshot, translator: Translator
    ) -> FollowedGroup:
        """Commit the positions of a group if commits are permitted, and return the new state of the group."""
        if group.reason is not None or not group.positions:
            return group
        if (
            snapshot.at_source is not None
            and group_hindrance(snapshot.at_source, snapshot.at_destination) is FollowReason.OTHER_TYPE
        ):
            return replace(group, reason=FollowReason.OTHER_TYPE)
        return await self._commit_moves(group, before, snapshot, translator)

    async def _commit_moves(
        self, group: FollowedGroup, before: FollowedGroup, snapshot: GroupSnapshot, translator: Translator
    ) -> FollowedGroup:
        cluster = self._context.cluster(self._job.destination)
        hindrance = FollowReason.MEMBERS if snapshot.at_destination.has_members else None
        try:
            moves = {
                place: self._moved(translator, place, position.source)
                for place, position in group.positions.items()
            }
            if snapshot.error is not None:
                raise snapshot.error
            self._require_fresh(snapshot.asked_at, group, cluster)
            decided = {
                place: _decided(position, moves[place], snapshot.present, hindrance)
                for place, position in group.positions.items()
            }
            wanted = {
                position.copy: moves[place].becomes
                for place, position in decided.items()
                if position.reason.commits
            }
            codes = await self._commit(cluster, group, wanted) if wanted else {}
        except HeadraceError as error:
            return failed_group(replace(group, positions=before.positions or group.positions), error)
        return replace(
            group,
            positions={
                place: _committed(position, wanted.get(position.copy), codes.get(position.copy))
                for place, position in decided.items()
            },
        )

    def _require_fresh(self, asked_at: float, group: FollowedGroup, cluster: Cluster) -> None:
        """Raise TimedOut if the positions of a group were read too long ago for a commit.

        `asked_at`: time of the request (monotonic seconds).
        """
        if self._context.loop.now() - asked_at > _FRESH_SECONDS:
            raise TimedOut(f"positions of group {group.group} on {cluster.name} took too long to read")

    def _moved(self, translator: Translator, place: TopicPartition, offset: int) -> PositionMove:
        """Return the translation of a group's position. The result has no offset if a commit might skip
        records that are not copies."""
        if self._job.is_two_way(place.topic):
            copy = self._job.naming.copy_of(place)
            return PositionMove(place, offset, copy, -1, skipped=FollowReason.TWO_WAY)
        if self._log.lane_error(LaneKey(self._job.state, place)) is not None:
            return PositionMove(place, offset, place, -1, skipped=FollowReason.FAILED)
        move = translator.move(place, offset)
        if move.precision == Precision.BEFORE and move.becomes:
            start = self._lanes[LaneKey(self._job.state, place)].ledger.start
            if offset < start:
                return replace(move, becomes=-1, skipped=FollowReason.BEFORE_COPIES)
        return move

    async def _commit(
        self, cluster: Cluster, group: FollowedGroup, wanted: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """Commit positions of a group without members; return the error code of each partition.

        Does not retry: the next pass reads all positions again.
        """
        call = position_commit(group.group, wanted, group.kind)
        lane = crc32(group.group.encode()) % _COMMIT_CONNECTIONS
        return await cluster.coordinators.ask_once(
            GROUP, group.group, call, lambda found: max(found.values(), default=0), f"{COORDINATE}-{lane}"
        )

    async def _save(self, found: Sequence[FollowedGroup], before: Sequence[FollowedGroup]) -> None:
        """Store the states of consumer groups that this pass has changed."""
        now_ms = self.now_ms
        entries = [
            (self._job.keys.of(group.group), write_group(replace(group, changed_ms=now_ms)))
            for group, old in zip(found, before, strict=True)
            if not group.is_same(old)
        ]
        await self._log.save(entries, now_ms)


def untranslated_reason(move: PositionMove) -> FollowReason:
    """Return why a position of a group has no counterpart at the destination."""
    return _UNTRANSLATED.get(move.skipped, FollowReason.NOTHING_YET)


def is_exact_move(move: PositionMove) -> bool:
    """Return whether a translated position is final, because all records before it are mirrored."""
    return not move.behind and move.precision != Precision.BEFORE


def _decided(
    position: FollowedPosition,
    move: PositionMove,
    present: Mapping[TopicPartition, int],
    hindrance: FollowReason | None,
) -> FollowedPosition:
    """Return the position of a group with the decision whether to commit it, and the reason."""
    target = present.get(move.target)
    position = position._replace(target=target, copy=move.target)
    if not move.is_translated:
        return position._replace(reason=untranslated_reason(move), is_exact=False)
    reason = decide(position.source, target, move.becomes, position.synced)
    if hindrance is not None and reason is not FollowReason.CURRENT:
        reason = hindrance
    synced = (
        SyncedPosition(position.source, move.becomes) if reason is FollowReason.CURRENT else position.synced
    )
    return position._replace(reason=reason, is_exact=is_exact_move(move), synced=synced)


def _committed(position: FollowedPosition, wanted: int | None, code: int | None) -> FollowedPosition:
    """Return the position of a group after a commit at the destination.

    `wanted`: committed offset, None if no commit was sent. `code`: error code, None if the response has none.
    """
    if wanted is None:
        return position
    if code == Code.NONE:
        return position._replace(target=wanted, synced=SyncedPosition(position.source, wanted))
    return position._replace(reason=refusal_of(code))


def refusal_of(code: int | None) -> FollowReason:
    """Return why a position of a group was not committed.

    `code`: error code of the commit. None means that the response has none, because Kafka 4.1 ignores some
    start offsets.
    """
    if code in (Code.UNKNOWN_MEMBER_ID, NON_EMPTY_GROUP):
        return FollowReason.MEMBERS
    if code == GROUP_ID_NOT_FOUND:
        return FollowReason.OTHER_TYPE
    return FollowReason.NO_RIGHTS if code in _NO_RIGHTS else FollowReason.FAILED
