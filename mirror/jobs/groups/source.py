"""Lists consumer groups and reads their positions.

One request reads many groups if the brokers support it (KIP-709).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mirror.client.cluster import Cluster
from mirror.client.lookup.coordinators import COORDINATE
from mirror.errors import HeadraceError, Unreachable
from mirror.jobs.groups.decision import group_hindrance
from mirror.jobs.translate_job import TranslateJob, committed_at
from mirror.loggers import get_logger
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.groups import SHARE, ListedGroup, list_groups
from mirror.protocol.control.offsets import (
    MANY_GROUPS_FROM,
    OFFSET_FETCH,
    CommittedOffsets,
    committed_offsets_of,
)
from mirror.replication.context import EngineContext

_log = get_logger(__name__)
_AT_ONCE: Final = 16
"""Maximum number of concurrent requests that read a single group."""
_IN_REQUEST: Final = 50
"""Maximum number of groups in a request. A larger response would block the event loop for too long."""


Committed = Mapping[TopicPartition, int] | HeadraceError
"""Committed positions of a group, or the error of reading them."""


class GroupListing(NamedTuple):
    """Consumer groups that the brokers of a cluster have listed.

    `is_complete`: whether every broker has listed its groups.
    """

    groups: Mapping[str, ListedGroup]
    is_complete: bool


class GroupSnapshot(NamedTuple):
    """A consumer group as read at the beginning of a pass.

    `at_source`, `at_destination`: description of the group at the source (None if missing) and at the
    destination. `offsets`: positions at the source. `error`: error of reading `offsets`. `present`: positions
    at the destination, if they were read. `asked_at`: time of the request for `present` (monotonic seconds).
    """

    name: str
    at_source: ListedGroup | None
    at_destination: ListedGroup
    offsets: Mapping[TopicPartition, int]
    error: HeadraceError | None = None
    present: Mapping[TopicPartition, int] = {}
    asked_at: float = 0.0

    @property
    def mark(self) -> Hashable:
        """Fingerprint of the group, which changes if its description or a position changes."""
        if self.at_source is None or self.error is not None:
            return object()
        offsets = (hash(frozenset(found.items())) for found in (self.offsets, self.present))
        return group_hindrance(self.at_source, self.at_destination), *offsets


async def listed(cluster: Cluster) -> GroupListing:
    """Return the consumer groups that the responding brokers list.

    Raises Unreachable or NotAuthorized if all brokers fail.
    """
    await cluster.refresh(())
    found: dict[str, ListedGroup] = {}
    failure: HeadraceError | None = None
    answered = 0
    for broker in sorted(cluster.brokers):
        try:
            listing = await cluster.ask(list_groups(), broker)
            if listing.error:
                doing = f"cannot list the groups of broker {broker}"
                raise cluster.error(listing.error, doing, "Describe on the cluster or its groups")
        except HeadraceError as error:
            failure = error
        else:
            found.update(listing.groups)
            answered += 1
    if failure is not None and not answered:
        raise failure
    return GroupListing(found, failure is None)


async def with_kind(bench: EngineContext, job: TranslateJob) -> TranslateJob:
    """Return the job with the type of its consumer group filled in. Raises the errors of `listed`."""
    here = await listed(bench.cluster(job.sides[0]))
    return replace(job, kind=here.groups.get(job.group, ListedGroup()).kind)


async def group_snapshots(
    cluster: Cluster,
    names: Sequence[str],
    listings: tuple[Mapping[str, ListedGroup], Mapping[str, ListedGroup]],
    topics: TopicSelection,
) -> list[GroupSnapshot]:
    """Return the consumer groups with their current positions in the given topics.

    `listings`: groups of the source and of the destination.
    """
    here, there = listings
    found = await committed_by_group(cluster, {name: here[name].kind for name in names if name in here})
    snapshots = []
    for name in names:
        offsets = found.get(name, {})
        snapshot = GroupSnapshot(name, here.get(name), there.get(name, ListedGroup()), {})
        if isinstance(offsets, HeadraceError):
            snapshots.append(snapshot._replace(error=offsets))
        else:
            selected = {topic for topic in {place.topic for place in offsets} if topics.matches(topic)}
            mine = {place: offset for place, offset in offsets.items() if place.topic in selected}
            snapshots.append(snapshot._replace(offsets=mine))
    return snapshots


async def with_present(
    cluster: Cluster, snapshots: Sequence[GroupSnapshot], kinds: Mapping[str, str]
) -> list[GroupSnapshot]:
    """Return the consumer groups with their current positions at the destination.

    `kinds`: types of the groups that may have positions.
    """
    asked_at = cluster.loop.now()
    found = await committed_by_group(cluster, kinds)
    read = []
    for snapshot in snapshots:
        present = found.get(snapshot.name, {})
        if isinstance(present, HeadraceError):
            read.append(snapshot._replace(error=present))
        else:
            read.append(snapshot._replace(present=present, asked_at=asked_at))
    return read


def require_source(snapshots: Sequence[GroupSnapshot]) -> None:
    """Raise Unreachable if no group of the source could be read.

    The stored states then keep the time at which the positions were read.
    """
    errors = [snapshot.error for snapshot in snapshots if snapshot.at_source is not None]
    for error in errors:
        if not isinstance(error, Unreachable):
            return
    if errors and errors[0] is not None:
        raise errors[0]


async def committed_by_group(cluster: Cluster, kinds: Mapping[str, str]) -> dict[str, Committed]:
    """Return the committed positions of each group. `kinds`: types of the groups."""
    found: dict[str, Committed] = {}
    if len(kinds) > 1 and cluster.newest(OFFSET_FETCH) >= MANY_GROUPS_FROM:
        together = await _read_together(cluster, [name for name, kind in kinds.items() if kind != SHARE])
        for name, answer in together.items():
            if not answer.worst:
                found[name] = {place: committed.offset for place, committed in answer.offsets.items()}
    rest = [name for name in kinds if name not in found]
    for start in range(0, len(rest), _AT_ONCE):
        chunk = rest[start : start + _AT_ONCE]
        alone = await cluster.loop.together(_read_alone(cluster, name, kinds[name]) for name in chunk)
        found.update(zip(chunk, alone, strict=True))
    return found


async def _read_alone(cluster: Cluster, name: str, kind: str) -> Mapping[TopicPartition, int] | HeadraceError:
    try:
        return await committed_at(cluster, name, kind)
    except HeadraceError as error:
        return error


async def _read_together(cluster: Cluster, names: Sequence[str]) -> Mapping[str, CommittedOffsets]:
    """Request the positions of many groups with one request per coordinator.

    Groups without a response must be read one by one, with retries, to get the error of each group.
    """
    by_broker: dict[int, list[str]] = {}
    try:
        brokers = await cluster.loop.together(cluster.coordinators.find(GROUP, name) for name in names)
    except HeadraceError as error:
        _log.debug("reading each group alone", cluster=cluster.name, groups=len(names), reason=str(error))
        return {}
    for name, broker in zip(names, brokers, strict=True):
        by_broker.setdefault(broker, []).append(name)
    answers = await cluster.loop.together(
        _ask(cluster, broker, mine[start : start + _IN_REQUEST])
        for broker, mine in by_broker.items()
        for start in range(0, len(mine), _IN_REQUEST)
    )
    return {name: found for answer in answers for name, found in answer.items()}


async def _ask(cluster: Cluster, broker: int, names: Sequence[str]) -> Mapping[str, CommittedOffsets]:
    try:
        return await cluster.ask(committed_offsets_of(names), broker, COORDINATE)
    except HeadraceError as error:
        _log.debug("reading each group alone", cluster=cluster.name, groups=len(names), reason=str(error))
        return {}
