"""Translates the positions of a group while the source is down, from positions stored at the destination."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from mirror.errors import CorruptData, NotFound
from mirror.jobs.groups.log import GroupLog
from mirror.jobs.groups.record import read_any_group, read_round
from mirror.jobs.progress_logs import progress_log
from mirror.jobs.stored_lanes import stored_and_current
from mirror.jobs.translate_job import GroupPositions, PositionMove, TranslateJob, committed_at, moves_of
from mirror.model.bounds import shown
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicPartition
from mirror.replication.context import EngineContext


class StoredTranslation(NamedTuple):
    """Translated positions of a group, from the last known positions at the source.

    `as_of_ms`: time at which the oldest of these positions was read from the source (epoch ms). `kind`: type
    of the group, empty if unknown.
    """

    moves: list[PositionMove]
    as_of_ms: int
    kind: str = ""


async def stored_groups(bench: EngineContext, destination: ClusterRef) -> GroupLog:
    """Read the stored positions of groups from the progress topic of a cluster. Raises Unreachable."""
    log = progress_log(GroupLog, bench, destination)
    await log.catch_up()
    return log


async def plan_without_source(
    bench: EngineContext, job: TranslateJob, log: GroupLog | None = None
) -> StoredTranslation:
    """Return the offsets to commit for a group, translated from its last synchronised positions.

    `log`: stored groups, if they were already read. Raises NotFound if no positions are stored, and the
    errors of `committed_at`.
    """
    state = GroupName(job.state)
    stored = await stored_and_current(bench, job.destination, state)
    log = log or await stored_groups(bench, job.destination)
    records = log.records_under(state)
    rounds = {_owner(key): at_ms for key, value in records.items() if (at_ms := read_round(value))}
    here: dict[TopicPartition, int] = {}
    ages, kind = [], ""
    for key, value in records.items():
        with contextlib.suppress(CorruptData):
            found = read_any_group(key, value)
            if found is None or found.group != job.group:
                continue
            if found.positions:
                kind = found.kind
                here |= {place: position.source for place, position in found.positions.items()}
                ages.append(max(found.changed_ms, rounds.get(_owner(key), 0)))
    if not here:
        raise NotFound(
            f"{job.source} does not respond, and no positions of group {shown(job.group)} are stored on"
            f" {job.destination}",
            advice="select the group with --groups before a failover, or reset its offsets by time",
        )
    there = await committed_at(bench.cluster(job.destination), job.target_group, kind)
    return StoredTranslation(moves_of(job, stored, GroupPositions(here, there)), min(ages), kind)


def _owner(key: bytes) -> bytes:
    """Return the part of a record key of stored groups that identifies the datastream."""
    return key.rpartition(b".")[0]
