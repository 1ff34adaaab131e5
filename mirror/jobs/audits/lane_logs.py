"""Reads the log ends and the stored progress of lanes, in the order that makes an audit correct."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mirror.audit.account import settled_offset
from mirror.audit.reader import NO_END
from mirror.errors import HeadraceError
from mirror.jobs.audits.lanes import AuditedLanes
from mirror.jobs.audits.log_windows import LogWindows
from mirror.jobs.audits.record import LaneAudit
from mirror.jobs.partition_verdict import StoredCopy
from mirror.jobs.verify_job import VerifyJob, target_ends, truncated_copies
from mirror.lane.progress import LaneProgress, main_key
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.topics import TopicPartition
from mirror.protocol.control.offsets import EARLIEST, LATEST, OffsetAnswer
from mirror.replication.context import EngineContext
from mirror.replication.progress_log import ProgressLog

LaneKeys = Mapping[TopicPartition, LaneKey]


class AuditLog(ProgressLog):
    """Reader of a progress topic that also contains audit states. The audit state of a lane is read and
    deleted together with the progress of the lane."""

    def state(self, key: LaneKey) -> bytes | None:
        """Return the stored audit state of a lane, as of the last read of the topic."""
        return self._stored.records_of(main_key(key)).get(state_key(key))

    async def save_states(self, states: Mapping[bytes, bytes], now_ms: int) -> Mapping[bytes, HeadraceError]:
        """Write audit states, by record key. Return the errors of those in partitions without a leader.
        Raises Unreachable, NotAuthorized."""
        failed = await self.save_each([*states.items()], now_ms)
        for number, error in failed.items():
            if not self.is_offline(number):
                raise error
        return {name: failed[number] for name in states if (number := self.partition_of(name)) in failed}

    async def progress_of(
        self, keys: LaneKeys
    ) -> tuple[Mapping[TopicPartition, LaneProgress | None], Mapping[TopicPartition, HeadraceError]]:
        """Read the stored progress of lanes. Return the progress, and the errors of lanes whose progress is
        unreadable. Raises Unreachable, UnsafeProgressTopic."""
        await self.catch_up(keys.values())
        found, errors = dict[TopicPartition, LaneProgress | None](), dict[TopicPartition, HeadraceError]()
        for place, key in keys.items():
            try:
                found[place] = self.stored(key)
            except HeadraceError as error:
                errors[place] = error
        return found, errors


def state_key(key: LaneKey) -> bytes:
    """Return the record key for the audit state of a lane."""
    return main_key(key) + b"/audit"


class LaneEnds(NamedTuple):
    """End offsets of a lane's source and destination logs, and the ids of both topics.

    `target`: None if unknown.
    """

    source: int
    target: OffsetAnswer | None
    topic_ids: tuple[bytes, bytes]


class LaneLogs(NamedTuple):
    """Offset ranges [start, end) of a lane's source and destination logs, and its stored progress.

    `window`: see `LogWindows`. `open_to`: end of the destination log, including open transactions.
    """

    source: tuple[int, int]
    target: tuple[int, int]
    copy: StoredCopy
    window: tuple[int, int] | None = None
    open_to: int = 0

    def settled(self, progress: LaneProgress) -> int:
        """Return the source offset up to which consumers of the destination can read the copies."""
        return settled_offset(progress, self.target[1], self.open_to)


async def read_ends(
    context: EngineContext, lanes: AuditedLanes, keys: LaneKeys
) -> Mapping[TopicPartition, LaneEnds]:
    """Return the end offsets of the source and destination logs of lanes. Topics are described after the end
    offsets were read, so the offsets never belong to a topic recreated in between. Raises Unreachable."""
    job = lanes.job
    source, target = context.cluster(job.source), context.cluster(job.destination)
    ends = await source.offsets(dict.fromkeys(keys, LATEST))
    names = {topic: job.naming.destination(topic) for topic in sorted({place.topic for place in keys})}
    await source.patiently(lambda: source.refresh(names))
    await target.patiently(lambda: target.refresh(sorted(set(names.values()))))
    copies = await target_ends(context, job, list(keys))
    return {
        place: LaneEnds(
            NO_END if ends[place].error else ends[place].offset,
            copies.get(place),
            (source.topic_id(place.topic), target.topic_id(names[place.topic])),
        )
        for place in keys
    }


async def read_logs(
    context: EngineContext,
    lanes: AuditedLanes,
    log: AuditLog,
    keys: LaneKeys,
    ends: Mapping[TopicPartition, LaneEnds],
    windows: LogWindows,
) -> tuple[Mapping[TopicPartition, LaneLogs], Mapping[TopicPartition, HeadraceError]]:
    """Read the stored progress, and then the ends of both logs. Return the logs, and the errors of lanes with
    unreadable progress. Raises Unreachable.

    `ends`: ends that were read before the progress. If no records are in flight, the stored progress includes
    all records before these ends. All records that the progress counts as copied are before the ends that are
    read afterwards.
    """
    if not keys:
        return {}, {}
    job, target = lanes.job, context.cluster(lanes.job.destination)
    source = context.cluster(job.source)
    copies = {place: job.naming.copy_of(place) for place in keys}
    source_starts = await source.offsets(dict.fromkeys(keys, EARLIEST))
    starts = await target.offsets({copies[p]: EARLIEST for p in keys if ends[p].target is not None})
    stored, errors = await log.progress_of(keys)
    keys = {place: key for place, key in keys.items() if place in stored}
    after = await source.offsets(dict.fromkeys(keys, LATEST))
    ends_after = await target_ends(context, job, list(keys))
    uncommitted = [
        copies[place]
        for place, end in ends_after.items()
        if (progress := stored[place]) is not None and end.offset < (progress.offset_map.target_end or 0)
    ]
    open_ends = await target.offsets(dict.fromkeys(uncommitted, LATEST))
    found_windows = await windows.read(source)
    found = {}
    for place in keys:
        copy, source_start = copies[place], source_starts[place]
        target_start = 0 if copy not in starts or starts[copy].error else starts[copy].offset
        found[place] = LaneLogs(
            (
                0 if source_start.error else source_start.offset,
                NO_END if after[place].error else after[place].offset,
            ),
            (target_start, ends_after[place].offset if place in ends_after else 0),
            StoredCopy.of(stored[place], ends[place].target),
            found_windows.get(place),
            open_ends[copy].offset if copy in open_ends else 0,
        )
    return found, errors


async def is_truncated(
    context: EngineContext, job: VerifyJob, place: TopicPartition, state: LaneAudit, copy: StoredCopy
) -> bool:
    """Return whether the destination may have lost audited records. Raises Unreachable."""
    before, history = state.lane, copy.history
    if before is None or history is None:
        return False
    if not history.continues(before):
        return True
    if not history.has_new_leader(before):
        return False
    end = before.target_end if state.target_next is None else state.target_next
    return bool(await truncated_copies(context, job, {place: (before.target_epoch, end)}))
