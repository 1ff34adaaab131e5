"""Verification of a copy: the ranges to compare, and the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError, InvalidRequest, TopicMissing, Unreachable
from mirror.jobs.compare import Comparison, RangeHash, Side, compare, compare_ranges
from mirror.lane.ledger import LeftOut, Uncopied
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import Isolation
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection
from mirror.protocol.codes import Code
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.replication.context import EngineContext
from mirror.wording import counted

_AT_ONCE: Final = 4


@dataclass(frozen=True)
class VerifyJob:
    """Scope and options of a verification.

    With a `state`, the range that was copied with it is compared, aligned by its offset map. Without a state,
    both logs are compared up to the end of the source at the start. If `records_per_range` is above 0,
    digests of ranges are compared instead of records. `allows_expired`: the destination intentionally has a
    shorter retention, so records that it has deleted are not missing.
    """

    source: ClusterRef
    destination: ClusterRef
    selection: TopicSelection
    naming: TopicNaming = field(default_factory=TopicNaming)
    isolation: Isolation = Isolation.READ_COMMITTED
    state: str = ""
    records_per_range: int = 0
    allows_expired: bool = False

    def __post_init__(self) -> None:
        self.selection.require_topic_characters()
        if self.allows_expired and not self.state:
            raise InvalidRequest(
                "expired records cannot be recognized without a state",
                advice="pass --state with the state of the copy",
            )


@dataclass(frozen=True)
class PartitionVerdict:
    """Result of one partition: the offsets compared on both sides, and the outcome. `problem`: why it could
    not be compared.

    `left_out`: source records that were filtered or dead-lettered, according to the state's checkpoint; None
    without a state, because then they cannot be distinguished from missing records. `expired`: number of
    offsets of the copy that only the destination has deleted, if allowed.
    """

    partition: TopicPartition
    source_range: tuple[int, int] = (0, 0)
    target_range: tuple[int, int] = (0, 0)
    comparison: Comparison = field(default_factory=Comparison)
    differing_ranges: tuple[tuple[RangeHash | None, RangeHash | None], ...] = ()
    problem: str = ""
    left_out: int | None = None
    expired: int = 0

    @property
    def is_equal(self) -> bool:
        """Return whether the sides differ only by records that were skipped intentionally."""
        return not self.problem and self.comparison.is_equal and not self.differing_ranges

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "equal": self.is_equal,
            "source_range": list(self.source_range),
            "destination_range": list(self.target_range),
            "records": self.comparison.records,
            "missing": self.comparison.missing,
            "surplus": self.comparison.surplus,
            "left_out": self.left_out,
            "expired": self.expired,
            "differences": [
                {
                    "source_offset": difference.source_offset,
                    "destination_offset": difference.target_offset,
                    "what": difference.what,
                }
                for difference in self.comparison.differences
            ],
            "differing_ranges": [
                {"source": _plain(difference), "destination": _plain(two)}
                for difference, two in self.differing_ranges
            ],
            "problem": self.problem,
        }


def _plain(digest: RangeHash | None) -> dict[str, Any] | None:
    if digest is None:
        return None
    return {
        "first_offset": digest.first_offset,
        "last_offset": digest.last_offset,
        "records": digest.records,
        "digest": digest.digest,
    }


Tell = Callable[[int, int, int], None]
"""Callback: partitions compared, their total, and offsets read on both sides."""


class _ComparisonProgress:
    """Progress of a comparison, reported to `on_progress` after every part read."""

    def __init__(self, partitions: int, on_progress: Tell | None) -> None:
        self._partitions = partitions
        self._on_progress = on_progress
        self._done = self._offsets = 0

    def read(self, offsets: int) -> None:
        """Add offsets read."""
        self._offsets += offsets
        self._report()

    def finished(self, partitions: int) -> None:
        """Add compared partitions."""
        self._done += partitions
        self._report()

    def _report(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._done, self._partitions, self._offsets)


async def verify_copy(
    bench: EngineContext, job: VerifyJob, on_progress: Tell | None = None
) -> list[PartitionVerdict]:
    """Compare every partition of the selected topics.

    `on_progress` is called on the loop's thread with the progress. Raises TopicMissing if no topic is
    selected, Unreachable.
    """
    places = await _places(bench, job)
    watched = _ComparisonProgress(len(places), on_progress)
    stored = await _stored(bench, job, places)
    verdicts: list[PartitionVerdict] = []
    for start in range(0, len(places), _AT_ONCE):
        part = places[start : start + _AT_ONCE]
        verdicts += await bench.loop.together(
            _verify(bench, job, place, stored.get(place), watched) for place in part
        )
        watched.finished(len(part))
    return verdicts


async def _places(bench: EngineContext, job: VerifyJob) -> list[TopicPartition]:
    source, target = bench.cluster(job.source), bench.cluster(job.destination)
    topics = await source.patiently(source.all_topics)
    chosen = job.selection.choose(name for name, topic in topics.items() if not topic.error)
    if not chosen:
        raise TopicMissing(
            f"no topic of {job.source} matches {job.selection.include}",
            advice="the pattern must match the whole name; topics without the right DESCRIBE are not listed",
        )
    await target.patiently(lambda: target.refresh([job.naming.destination(topic) for topic in chosen]))
    return [TopicPartition(topic, number) for topic in chosen for number in range(len(topics[topic].leaders))]


async def _stored(
    bench: EngineContext, job: VerifyJob, places: Sequence[TopicPartition]
) -> dict[TopicPartition, LaneProgress]:
    if not job.state:
        return {}
    keys = [LaneKey(GroupName(job.state), place) for place in places]
    found = await bench.progress(job.destination).load(keys)
    return {key.partition: progress for key, progress in found.items() if progress is not None}


async def _verify(
    bench: EngineContext,
    job: VerifyJob,
    place: TopicPartition,
    stored: LaneProgress | None,
    watched: _ComparisonProgress,
) -> PartitionVerdict:
    try:
        *sides, expired = await _sides(bench, job, place, stored)
        one, two = [replace(side, on_read=watched.read) for side in sides]
        if expired and not job.allows_expired:
            return PartitionVerdict(
                place,
                (one.start, one.end),
                (two.start, two.end),
                problem=f"{counted(expired, 'offset')} of mirrored records that the source still has"
                f" are missing at the destination, which starts at {two.start}: check its retention",
            )
        look = None if job.state else _end_now
        if job.records_per_range:
            ranges = await compare_ranges(one, two, job.records_per_range, look)
            judged = (one.start, ranges.source_end), (two.start, ranges.target_end)
            differing = tuple(ranges.differing)
            verdict = PartitionVerdict(place, *judged, differing_ranges=differing, expired=expired)
            return _without_left_out(verdict, ranges.uncopied) if job.state else verdict
        found = await compare(one, two, look)
        judged = (one.start, found.source_end), (two.start, found.target_end)
        verdict = PartitionVerdict(place, *judged, found, expired=expired)
        return _without_left_out(verdict, found.uncopied) if job.state else verdict
    except HeadraceError as error:
        return PartitionVerdict(place, problem=str(error))


def _without_left_out(verdict: PartitionVerdict, uncopied: Uncopied) -> PartitionVerdict:
    found = replace(verdict.comparison, missing=verdict.comparison.missing + uncopied.missing)
    return replace(verdict, comparison=found, left_out=uncopied.left_out)


async def _end_now(side: Side) -> int:
    answer = (await side.cluster.offsets({side.place: LATEST}, committed=side.committed))[side.place]
    if answer.error:
        raise Unreachable(f"{side.cluster.name} returned no end offset for {side.place}")
    return answer.offset


async def _sides(
    bench: EngineContext, job: VerifyJob, place: TopicPartition, stored: LaneProgress | None
) -> tuple[Side, Side, int]:
    """Return the ranges to compare, and the number of copied offsets that the destination has deleted."""
    source, target = bench.cluster(job.source), bench.cluster(job.destination)
    copy = TopicPartition(job.naming.destination(place.topic), place.partition)
    committed = job.isolation is Isolation.READ_COMMITTED
    start, end = await _range(source, place, committed=committed)
    target_start, target_end = await _range(target, copy, committed=committed)
    left_out, expired = None, 0
    if job.state:
        if stored is None:
            raise TopicMissing(f"state {job.state} has no checkpoint of {place}")
        left_out = LeftOut(stored.ledger, stored.offset_map)
        start, end = max(start, stored.ledger.start), min(end, stored.next_offset)
        first = stored.offset_map.forward(start).offset
        copied_to = stored.offset_map.target_end or first
        expired = max(min(target_start, copied_to) - first, 0) if start < end else 0
        start = max(start, stored.offset_map.source_behind(target_start) or 0)  # the rest has expired there
        target_start = max(target_start, stored.offset_map.forward(start).offset)
        target_end = min(target_end, stored.offset_map.target_end or target_start)
    return (
        Side(source, place, start, end, committed, left_out),
        Side(target, copy, target_start, target_end, committed),
        expired,
    )


async def _range(cluster: Cluster, place: TopicPartition, *, committed: bool) -> tuple[int, int]:
    start = (await cluster.offsets({place: EARLIEST}))[place]
    end = (await cluster.offsets({place: LATEST}, committed=committed))[place]
    for answer in (start, end):
        if answer.error:
            raise Unreachable(f"{place} on {cluster.name} is missing or has no leader")
    return start.offset, end.offset


@dataclass(frozen=True)
class CopiedRange:
    """Range [start, end) of a partition, on both sides, that was copied with a state.

    `unjudged`: number of source offsets after the range; `left_out`: classes of the records in the range
    (copied, filtered or dead-lettered), None without progress.
    """

    partition: TopicPartition
    source_range: tuple[int, int]
    target_range: tuple[int, int]
    unjudged: int = 0
    left_out: LeftOut | None = None


async def copied_ranges(bench: EngineContext, job: VerifyJob) -> list[CopiedRange]:
    """Return the copied range of every partition of the selected topics, according to the stored state. With
    these ranges, both sides can be compared while they grow. A missing destination topic counts as empty.

    Raises TopicMissing if no topic is selected, Unreachable.
    """
    places = await _places(bench, job)
    stored = await _stored(bench, job, places)
    return [await _copied(bench, job, place, stored.get(place)) for place in places]


async def _copied(
    bench: EngineContext, job: VerifyJob, place: TopicPartition, stored: LaneProgress | None
) -> CopiedRange:
    source, target = bench.cluster(job.source), bench.cluster(job.destination)
    start, end = await _range(source, place, committed=job.isolation is Isolation.READ_COMMITTED)
    if stored is None:
        return CopiedRange(place, (start, start), (0, 0), end - start)
    unjudged = max(end - max(stored.next_offset, start), 0)
    left_out = LeftOut(stored.ledger, stored.offset_map)
    if target.topics[job.naming.destination(place.topic)].error == Code.UNKNOWN_TOPIC_OR_PARTITION:
        start = max(start, stored.ledger.start)
        return CopiedRange(place, (start, min(end, stored.next_offset)), (0, 0), unjudged, left_out)
    one, two, _ = await _sides(bench, job, place, stored)
    return CopiedRange(place, (one.start, one.end), (two.start, two.end), unjudged, left_out)
