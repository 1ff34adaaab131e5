"""Verifies a copy: selects the offset ranges to compare, and summarises the results.

`verify_copy` compares both logs, or only the records that were copied under a stored state. `audit_copy`
compares the records that a running datastream has copied according to its checkpoints.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mirror.audit.account import LedgerAccount, settled_offset
from mirror.audit.comparison import compare
from mirror.audit.counts import CountRules, count_copies
from mirror.audit.matcher import MatchRules
from mirror.audit.reader import NO_END, LogRange
from mirror.audit.windows import WindowTally
from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError, InvalidRequest, TopicMissing, Unreachable
from mirror.jobs.partition_verdict import PartitionVerdict, StoredCopy
from mirror.jobs.truncation import truncated_logs
from mirror.lane.offset_map import Precision
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import Isolation
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection
from mirror.protocol.codes import Code
from mirror.protocol.control.offsets import EARLIEST, LATEST, OffsetAnswer
from mirror.protocol.control.topics import TopicSetting, describe_each
from mirror.replication.context import EngineContext
from mirror.wording import counted

_AT_ONCE: Final = 4


@dataclass(frozen=True)
class VerifyJob:
    """Scope and options of a verification.

    `state`: name of stored progress. If set, only the offsets that were copied under this name are compared,
    with the help of the stored offset map. If empty, both logs are compared up to the end offset of the
    source at the start. `allows_expired`: the destination intentionally has a shorter retention, so records
    that it has deleted do not count as missing. `is_transformed`: transforms have changed the records, so
    only their presence is compared. `is_shared`: other producers write to the destination topics, too.
    `sums`: compute sums of the records of both logs. `ranges`: source offsets [start, end) of partitions; if
    given, other offsets and partitions are not compared. `resumes`: destination offsets at which an earlier
    comparison of a partition ended. `judges_tail`: if no records are in flight, also compare destination
    records after the last copied record. `counts`: compare the offset map instead of the records; requires
    `windows` and `state`. `windows`: counts the records by event-time window. `pace`: see `LogRange`.
    """

    source: ClusterRef
    destination: ClusterRef
    selection: TopicSelection
    naming: TopicNaming = field(default_factory=TopicNaming)
    isolation: Isolation = Isolation.READ_COMMITTED
    state: str = ""
    allows_expired: bool = False
    is_transformed: bool = False
    is_shared: bool = False
    sums: bool = False
    ranges: Mapping[TopicPartition, tuple[int, int]] | None = None
    resumes: Mapping[TopicPartition, int] = field(default_factory=dict)
    judges_tail: bool = True
    counts: CountRules | None = None
    windows: WindowTally | None = None
    pace: Callable[[int], Awaitable[None]] | None = None

    def __post_init__(self) -> None:
        self.selection.require_topic_characters()
        if self.allows_expired and not self.state:
            raise InvalidRequest(
                "cannot distinguish expired from lost records without the progress of the copy",
                advice="pass --state NAME, the name under which the copy stored its progress",
            )

    @property
    def committed(self) -> bool:
        """True if only records of committed transactions are compared."""
        return self.isolation is Isolation.READ_COMMITTED


Tell = Callable[[int, int, int], None]
"""Callback that receives the numbers of compared partitions, all partitions, and read offsets."""


class _ComparisonProgress:
    """Counts compared offsets and partitions, and reports the progress after each read."""

    def __init__(self, partitions: int, on_progress: Tell | None) -> None:
        self._partitions = partitions
        self._on_progress = on_progress
        self._done = self._offsets = 0

    def read(self, offsets: int) -> None:
        self._offsets += offsets
        self._report()

    def finished(self, partitions: int) -> None:
        self._done += partitions
        self._report()

    def _report(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._done, self._partitions, self._offsets)


async def verify_copy(
    bench: EngineContext, job: VerifyJob, on_progress: Tell | None = None
) -> list[PartitionVerdict]:
    """Compare every partition of the selected topics with its copy.

    `on_progress` is called on the loop's thread with the progress. Raises Unreachable; TopicMissing if no
    topic is selected.
    """
    places = await places_of(bench, job)
    watched = _ComparisonProgress(len(places), on_progress)
    ends = await target_ends(bench, job, places)
    stored = await _stored(bench, job, places)
    verdicts: list[PartitionVerdict] = []
    for start in range(0, len(places), _AT_ONCE):
        part = places[start : start + _AT_ONCE]
        verdicts += await bench.loop.together(
            _verify(bench, job, place, StoredCopy.of(stored.get(place), ends.get(place)), watched.read)
            for place in part
        )
        watched.finished(len(part))
    return verdicts


async def places_of(bench: EngineContext, job: VerifyJob) -> list[TopicPartition]:
    """Return the source partitions to verify. Raises Unreachable; TopicMissing if there are none."""
    source, target = bench.cluster(job.source), bench.cluster(job.destination)
    topics = await source.patiently(source.all_topics)
    chosen = job.selection.choose(name for name, topic in topics.items() if not topic.error)
    if not chosen:
        raise TopicMissing(
            f"no topic of {job.source} matches {job.selection.include}",
            advice="the pattern must match the whole name; topics without the right DESCRIBE are not listed",
        )
    await target.patiently(lambda: target.refresh([job.naming.destination(topic) for topic in chosen]))
    places = [place for topic in chosen for place in topics[topic].partitions]
    return [place for place in places if job.ranges is None or place in job.ranges]


async def _stored(
    bench: EngineContext, job: VerifyJob, places: Sequence[TopicPartition]
) -> dict[TopicPartition, LaneProgress]:
    if not job.state:
        return {}
    keys = [LaneKey(GroupName(job.state), place) for place in places]
    found = await bench.progress(job.destination).load(keys)
    return {key.partition: progress for key, progress in found.items() if progress is not None}


async def target_ends(
    bench: EngineContext, job: VerifyJob, places: Sequence[TopicPartition]
) -> dict[TopicPartition, OffsetAnswer]:
    """Return the current end offset of each copy. Unknown ends are omitted."""
    if not job.state:
        return {}
    target = bench.cluster(job.destination)
    copies = {job.naming.copy_of(place): place for place in places}
    known = {copy: LATEST for copy in copies if not target.topics[copy.topic].error}
    answers = await target.offsets(known, committed=job.committed)
    return {copies[copy]: answer for copy, answer in answers.items() if not answer.error}


async def truncated_copies(
    bench: EngineContext, job: VerifyJob, known: Mapping[TopicPartition, tuple[int, int]]
) -> set[TopicPartition]:
    """Return the partitions whose copy was truncated. `known`: leader epoch and end of each copy at an
    earlier time. Raises Unreachable."""
    copies = {job.naming.copy_of(place): place for place in known}
    found = await truncated_logs(
        bench.cluster(job.destination), {copy: known[place] for copy, place in copies.items()}
    )
    return {copies[copy] for copy in found}


async def _verify(
    bench: EngineContext,
    job: VerifyJob,
    place: TopicPartition,
    stored: StoredCopy,
    on_read: Callable[[int], None],
) -> PartitionVerdict:
    try:
        sides = await _sides(bench, job, place, stored)
        source, target = sides.source, sides.target
        if sides.expired and not job.allows_expired:
            return PartitionVerdict(
                place,
                (source.start, source.end),
                (target.start, target.end),
                problem=f"{counted(sides.expired, 'offset')} of mirrored records that the source still has"
                f" are missing at the destination, which starts at {target.start}: check its retention",
            )
        return await _compared(bench, job, sides, on_read)
    except HeadraceError as error:
        return PartitionVerdict(place, problem=str(error))


async def _compared(
    bench: EngineContext, job: VerifyJob, sides: _Sides, on_read: Callable[[int], None]
) -> PartitionVerdict:
    source, target, account = sides.source, sides.target, sides.account
    if job.counts is not None and job.windows is not None and account is not None:
        ranges = (source.start, source.end), (target.start, target.end)
        found = count_copies(account.runs, *ranges, job.counts, job.windows)
        return PartitionVerdict(source.place, *ranges, found, expired=sides.expired, unjudged=sides.unjudged)
    source, target = (replace(side, on_read=on_read) for side in (source, target))
    if job.pace is not None:
        source, target = (replace(side, pace=job.pace) for side in (source, target))
    rules = await _rules(bench, job, source.place.topic)
    current_end = None if job.state else _end_now
    found = await compare(source, target, account, rules, current_end, sides.origins_end)
    return PartitionVerdict(
        source.place,
        (source.start, found.source_end),
        (target.start, found.target_end),
        found,
        left_out=found.uncopied.left_out if account is not None else None,
        expired=sides.expired,
        unjudged=sides.unjudged,
    )


async def _rules(bench: EngineContext, job: VerifyJob, topic: str) -> MatchRules:
    """Return the match rules for a topic. Unreadable settings count as not compacted."""
    here = await _settings(bench.cluster(job.source), topic)
    there = await _settings(bench.cluster(job.destination), job.naming.destination(topic))
    return MatchRules(
        compares_content=not job.is_transformed,
        source_compacts=_is_compacted(here),
        target_compacts=_is_compacted(there),
        shares_target=job.is_shared,
        sums=job.sums,
        windows=job.windows,
    )


async def _settings(cluster: Cluster, topic: str) -> Mapping[str, TopicSetting]:
    found = await cluster.patiently(lambda: cluster.ask(describe_each([topic])))
    return found[topic].settings if topic in found else {}


def _is_compacted(settings: Mapping[str, TopicSetting]) -> bool:
    return "compact" in settings["cleanup.policy"].value if "cleanup.policy" in settings else False


async def _end_now(side: LogRange) -> int:
    answer = (await side.cluster.offsets({side.place: LATEST}, committed=side.committed))[side.place]
    if answer.error:
        raise Unreachable(f"{side.cluster.name} returned no end offset for {side.place}")
    return answer.offset


class _Sides(NamedTuple):
    """Offset ranges of one partition to compare: source and destination. `expired`: number of copied offsets
    that the destination has deleted and the source still has. `origins_end`: see `comparison.compare`."""

    source: LogRange
    target: LogRange
    account: LedgerAccount | None
    expired: int = 0
    unjudged: int = 0
    origins_end: int = 0


async def _sides(bench: EngineContext, job: VerifyJob, place: TopicPartition, stored: StoredCopy) -> _Sides:
    copy = job.naming.copy_of(place)
    here = await _range(bench.cluster(job.source), place, committed=job.committed)
    there = await _range(bench.cluster(job.destination), copy, committed=job.committed)
    pending = 0
    if stored.progress is not None and job.committed:
        _, open_to = await _range(bench.cluster(job.destination), copy, committed=False)
        settled = settled_offset(stored.progress, there[1], open_to)
        pending = max(min(here[1], stored.progress.next_offset) - settled, 0)
        here = here[0], settled if pending else here[1]
    sides = _sides_within(bench, job, place, stored, (here, there))
    return sides._replace(unjudged=sides.unjudged + pending)


def _sides_within(
    bench: EngineContext,
    job: VerifyJob,
    place: TopicPartition,
    stored: StoredCopy,
    logs: tuple[tuple[int, int], tuple[int, int]],
) -> _Sides:
    """Return the offset ranges of one partition to compare. `logs`: start and end offset of the source and
    the destination log."""
    source, target = bench.cluster(job.source), bench.cluster(job.destination)
    (start, end), (target_start, target_end) = logs
    account, expired, unjudged, origins_end = None, 0, 0, 0
    if job.state:
        progress = stored.progress
        if progress is None:
            raise TopicMissing(f"state {job.state} has no checkpoint of {place}")
        account, offset_map = LedgerAccount(progress), progress.offset_map
        origins_end = max(progress.next_offset, end if end < NO_END else 0)  # a former owner copied more
        wanted, until = (start, end) if job.ranges is None else job.ranges[place]
        unjudged = max(min(end, until) - max(progress.next_offset, start, wanted), 0)
        is_whole = job.ranges is None or until >= progress.next_offset
        start = max(start, progress.ledger.start, wanted)
        end = max(min(end, progress.next_offset, until), start)
        first = offset_map.forward(start).offset
        copied_to = offset_map.target_end or first
        expired = max(min(target_start, copied_to) - first, 0) if start < end else 0
        start = max(start, offset_map.source_behind(target_start) or 0)  # the others have expired
        copies_from = offset_map.forward(start).offset
        resumed = job.resumes.get(place, copies_from)
        target_start = max(target_start, copies_from if start > wanted else resumed)
        # Without records in flight, the lane has written nothing else up to that earlier end.
        has_tail = job.judges_tail and bool(offset_map) and not unjudged
        known_end = max(copied_to, stored.target_end if has_tail else 0)
        if not is_whole:  # surplus before the next copy belongs to this part
            following, precision = offset_map.forward(end)
            behind = None if precision is Precision.EXACT else offset_map.source_behind(following)
            known_end = following if behind is None else offset_map.forward(behind - 1).offset + 1
        target_end = min(target_end, max(known_end, target_start))
        if place in job.resumes and logs[0][1] < progress.next_offset:
            target_end = target_start  # the source was truncated or recreated since then: no origins exist
    return _Sides(
        LogRange(source, place, start, end, job.committed),
        LogRange(target, job.naming.copy_of(place), target_start, target_end, job.committed),
        account,
        expired,
        unjudged,
        origins_end,
    )


async def _range(cluster: Cluster, place: TopicPartition, *, committed: bool) -> tuple[int, int]:
    start = (await cluster.offsets({place: EARLIEST}))[place]
    end = (await cluster.offsets({place: LATEST}, committed=committed))[place]
    for answer in (start, end):
        if answer.error:
            raise Unreachable(f"{place} on {cluster.name} is missing or has no leader")
    return start.offset, end.offset


async def audit_copy(
    bench: EngineContext, job: VerifyJob, on_progress: Tell | None = None
) -> list[PartitionVerdict]:
    """Compare the records that a running datastream has copied up to its checkpoints with their sources.

    A partition without a checkpoint is not compared. A missing destination topic counts as empty. A permanent
    error, such as a batch that cannot be decoded, is reported for its partition. Raises Unreachable;
    TopicMissing if no topic is selected.
    """
    places = await places_of(bench, job)
    watched = _ComparisonProgress(len(places), on_progress)
    ends = await target_ends(bench, job, places)
    stored = await _stored(bench, job, places)
    verdicts: list[PartitionVerdict] = []
    for place in places:
        before = StoredCopy.of(stored.get(place), ends.get(place))
        verdicts.append(await audit_partition(bench, job, place, before, watched.read))
        watched.finished(1)
    return verdicts


async def audit_partition(
    bench: EngineContext,
    job: VerifyJob,
    place: TopicPartition,
    stored: StoredCopy,
    on_read: Callable[[int], None] = lambda _offsets: None,
    logs: tuple[tuple[int, int], tuple[int, int]] | None = None,
) -> PartitionVerdict:
    """Compare the records of one partition that are copied according to its checkpoint.

    `on_read`: called with the number of offsets read. `logs`: start and end offset of the source and
    destination logs, read after the checkpoint. Raises the errors of `audit_copy`.
    """
    try:
        if logs is None:
            verdict = await _audit(bench, job, place, stored, on_read)
        else:
            verdict = await _compared(bench, job, _sides_within(bench, job, place, stored, logs), on_read)
    except HeadraceError as error:
        if error.retriable:
            raise
        verdict = PartitionVerdict(place, problem=str(error))
    return replace(verdict, lane=stored.history)


async def ranges_between(
    bench: EngineContext, job: VerifyJob, from_ms: int, to_ms: int
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the offset range of the records between two timestamps for each partition."""
    source = bench.cluster(job.source)
    places = await places_of(bench, job)
    ends = await source.offsets(dict.fromkeys(places, LATEST), committed=job.committed)
    found: list[dict[TopicPartition, int]] = []
    for moment in (from_ms, to_ms):
        answers = await source.offsets(dict.fromkeys(places, moment), committed=job.committed)
        for place in places:
            if answers[place].error or ends[place].error:
                raise Unreachable(f"{place} on {source.name} is missing or has no leader")
        found.append({p: answers[p].offset if answers[p].offset >= 0 else ends[p].offset for p in places})
    first, last = found
    return {place: (first[place], max(last[place], first[place])) for place in places}


async def has_copied(bench: EngineContext, job: VerifyJob) -> bool:
    """Return whether at least one record was copied, or there is none to copy. Raises as `places_of`."""
    places = await places_of(bench, job)
    stored = await _stored(bench, job, places)
    if any(progress.next_offset > progress.ledger.start for progress in stored.values()):
        return True
    source = bench.cluster(job.source)
    ranges = [await _range(source, place, committed=job.committed) for place in places]
    return all(start >= end for start, end in ranges)


async def _audit(
    bench: EngineContext,
    job: VerifyJob,
    place: TopicPartition,
    stored: StoredCopy,
    on_read: Callable[[int], None],
) -> PartitionVerdict:
    source, target = bench.cluster(job.source), bench.cluster(job.destination)
    start, end = await _range(source, place, committed=job.committed)
    progress = stored.progress
    if progress is None:
        return PartitionVerdict(place, (start, start), unjudged=end - start)
    copy = job.naming.copy_of(place)
    if target.topics[copy.topic].error != Code.UNKNOWN_TOPIC_OR_PARTITION:
        return await _compared(bench, job, await _sides(bench, job, place, stored), on_read)
    if job.ranges is not None:
        start, end = max(start, job.ranges[place][0]), min(end, job.ranges[place][1])
    unjudged = max(end - max(progress.next_offset, start), 0)
    start = max(start, progress.ledger.start)
    here = LogRange(source, place, start, max(min(end, progress.next_offset), start))
    there = LogRange(target, copy, 0, 0)
    return await _compared(bench, job, _Sides(here, there, LedgerAccount(progress), 0, unjudged), on_read)
