"""One-shot audits: compares the source and the destination of a datastream, with one result for each
topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from headrace.clusters.adhoc import bench_of, reach
from headrace.clusters.directory import ClusterDirectory
from headrace.console.patience import poll_until
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.audit.verdicts import Finding, RecordCounts, Verdict, worst
from mirror.errors import HeadraceError, InvalidRequest, NotFound
from mirror.jobs.audits.rows import read_rows
from mirror.jobs.audits.window_sums import WindowSum, window_sums
from mirror.jobs.partition_verdict import PartitionVerdict
from mirror.jobs.verify_job import VerifyJob, audit_copy, has_copied
from mirror.jobs.watch_job import AuditWatch
from mirror.model.datastreams.metadata import TASK_PREFIX
from mirror.model.datastreams.policy import PREFIX, SHARED_DESTINATION, Guarantee, is_on, policy_from
from mirror.model.datastreams.typed_keys import given_values, is_unset, text_of
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection
from mirror.replication.context import EngineContext
from mirror.wording import with_place

_FIRST_CHECKPOINT_SECONDS: Final = 30.0
"""Time to wait for the first checkpoint, in case the datastream has just started."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Audit result for one topic.

    `counts`: result of the comparison of source and destination records, without `left_out` and `uncopied`.
    `left_out`: number of records that were filtered or dead-lettered according to the checkpoints.
    `uncopied`: number of other source records that were never copied. `unjudged`: number of source offsets
    after the checkpoints. `expired`: number of copied offsets that only the destination has deleted.
    `at_least`: whether the counts are estimates, because there were too many differences. `findings`: the
    first differences, each with its source partition. `problems`: reasons why partitions could not be
    compared. `may_repeat`: the delivery guarantee permits duplicates.
    """

    topic: str
    counts: RecordCounts
    left_out: int
    uncopied: int
    unjudged: int
    expired: int
    at_least: bool
    findings: tuple[tuple[TopicPartition, Finding], ...]
    problems: tuple[str, ...]
    verdict: Verdict
    may_repeat: bool

    @property
    def is_complete(self) -> bool:
        """True if source and destination are equal up to the checkpoints.

        Records that were left out intentionally, and duplicates that the guarantee permits, do not count as
        differences.
        """
        return self.verdict in (Verdict.COMPLETE, Verdict.LATE, Verdict.DUPLICATED) and not self.repeated

    @property
    def repeated(self) -> int:
        """Number of duplicates, unless the guarantee permits them."""
        return 0 if self.may_repeat else self.counts.duplicated

    def to_json(self) -> dict[str, Any]:
        """Return the audit result as a JSON object."""
        counts = self.counts
        arrived = counts.equal + counts.altered
        absent = counts.missing + counts.target_compacted + self.left_out + self.uncopied
        surplus = counts.duplicated + counts.foreign + counts.source_compacted + counts.unrelated
        return {
            "topic": self.topic,
            "source_records": arrived + absent,
            "destination_records": arrived + surplus,
            "missing": counts.missing + self.uncopied,
            "left_out": self.left_out,
            "duplicates": counts.duplicated,
            "altered": counts.altered,
            "reordered": counts.reordered,
            "misplaced": counts.misplaced,
            "foreign": counts.foreign,
            "compacted": counts.target_compacted,
            "expired": self.expired,
            "unjudged": self.unjudged,
            "at_least": self.at_least,
            "complete": self.is_complete,
            "verdict": self.verdict.value,
            "problems": list(self.problems),
            "findings": [place._asdict() | finding.to_json() for place, finding in self.findings],
        }


def audit_job(definition: Mapping[str, Any]) -> VerifyJob:
    """Return the comparison job of a datastream. `definition`: definition in the format of /v1."""
    wanted, metadata = definition["source"], _metadata_of(definition)
    policy = policy_from(metadata)
    return VerifyJob(
        ClusterRef(wanted["cluster"]),
        ClusterRef(definition["destination"]["cluster"]),
        TopicSelection(wanted["topics"], wanted["exclude"], wanted["internal"]),
        TopicNaming(definition["destination"]["name"]),
        policy.isolation,
        state=metadata.get(TASK_PREFIX) or definition["name"],
        allows_expired=True,
        is_transformed=bool(policy.transforms),
        is_shared=is_on(metadata, SHARED_DESTINATION),
    )


def may_repeat(definition: Mapping[str, Any]) -> bool:
    """Return whether the guarantee of a datastream permits duplicates. `definition`: see `audit_job`."""
    return policy_from(_metadata_of(definition)).guarantee is Guarantee.AT_LEAST_ONCE


def _metadata_of(definition: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the metadata, including the options of the copy policy, which are fields in /v1."""
    metadata: Mapping[str, str] = definition["metadata"]
    options = {key: value for key, value in given_values(definition).items() if key.startswith(PREFIX)}
    return {**metadata, **{key: text_of(key, value) for key, value in options.items() if not is_unset(value)}}


def audit_datastream(
    settings: HeadraceSettings,
    definition: Mapping[str, Any],
    on_progress: Callable[[int, int, int], None] = lambda _compared, _partitions, _offsets: None,
) -> list[AuditResult]:
    """Compare every topic of a datastream with its copy, up to the current checkpoints.

    Records that arrive in the meantime are ignored. `definition`: definition in the format of /v1.
    `on_progress`: see `audit_copy`.

    Raises TopicMissing, Unreachable; NotFound if no checkpoint appears before the deadline.
    """
    name, job = definition["name"], audit_job(definition)
    with bench_of(settings, "headrace-audit", ClusterDirectory(settings.clusters)) as bench:
        reach(bench, job.source, job.destination)
        if not poll_until(lambda: bench.run(has_copied(bench, job)), bool, _FIRST_CHECKPOINT_SECONDS):
            raise NotFound(
                f"{name} has copied nothing yet: no checkpoint after {_FIRST_CHECKPOINT_SECONDS:.0f} s",
                advice=f"headrace lag {name} shows what its partitions are waiting for",
            )
        verdicts = bench.run(audit_copy(bench, job, on_progress))
    return results_by_topic(verdicts, may_repeat=may_repeat(definition))


def audited_windows(settings: HeadraceSettings, datastream: str | None, since_ms: int) -> list[WindowSum]:
    """Return the sums of all audit windows that the audit topic contains since `since_ms`.

    Raises InvalidRequest if no audit topic is configured; TopicMissing, Unreachable, NotAuthorized,
    AnswerTooLarge.
    """
    topic, cluster = settings.mirror.audit.topic, ClusterRef(settings.mirror.metrics_cluster)
    if not topic:
        raise InvalidRequest("mirror.audit.topic is empty, so audits write no windows")
    with bench_of(settings, "headrace-audit", ClusterDirectory(settings.clusters)) as bench:
        reach(bench, cluster)
        return window_sums(bench.run(read_rows(bench.cluster(cluster), topic, since_ms)), datastream)


@dataclass(frozen=True, slots=True)
class AuditRunResult:
    """Result of one comparison in a continuous audit.

    `results`: comparison of the records copied since the previous run. `by_topic`: time (epoch ms) before
    which every record of the topic is at the destination, None if unknown. `through_ms`: the same time for
    all topics together. `problem`: reason why this run failed. The next run then compares the same records.
    """

    results: Sequence[AuditResult] = ()
    through_ms: int | None = None
    by_topic: Mapping[str, int | None] = field(default_factory=dict)
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the result of the comparison as a JSON object."""
        return {
            "complete_through_ms": self.through_ms,
            "topics": [
                result.to_json() | {"complete_through_ms": self.by_topic.get(result.topic)}
                for result in self.results
            ],
            "problem": self.problem,
        }


def watch_datastream(
    settings: HeadraceSettings, definition: Mapping[str, Any], seconds: float, lateness_ms: int
) -> Iterator[AuditRunResult]:
    """Compare newly copied records of a datastream every `seconds`, and yield each result. Never ends.

    The first run compares all copied records, each later run those copied since the previous run.
    `lateness_ms`: maximum time between the timestamp of a record and its arrival at the source. A retriable
    error is yielded as the problem of a run. Other errors are raised.
    """
    clock, job = SystemClock(), audit_job(definition)
    watch = AuditWatch(job)
    with bench_of(settings, "headrace-audit", ClusterDirectory(settings.clusters)) as bench:
        while True:
            following = clock.monotonic() + seconds
            try:
                reach(bench, job.source, job.destination)
                verdicts = bench.run(watch.run_once(bench))
                results = results_by_topic(verdicts, may_repeat=may_repeat(definition))
            except HeadraceError as error:
                if not error.retriable:
                    raise
                yield AuditRunResult(problem=str(error))
            else:
                marks = watch.watermarks
                by_topic = {topic: marks.through(lateness_ms, topic) for topic in marks.topics}
                yield AuditRunResult(results, marks.through(lateness_ms), by_topic)
            bench.run(_pause(bench, following - clock.monotonic()))


async def _pause(bench: EngineContext, seconds: float) -> None:
    await bench.loop.sleep(max(seconds, 0.0))


def results_by_topic(verdicts: Sequence[PartitionVerdict], *, may_repeat: bool) -> list[AuditResult]:
    """Add up the results of each topic's partitions.

    `verdicts` must be sorted by topic. `may_repeat`: see `AuditResult`.
    """
    results = []
    for topic, group in groupby(verdicts, key=lambda verdict: verdict.partition.topic):
        parts, counts = list(group), RecordCounts()
        for part in parts:
            counts.add(part.comparison.found.counts)
        results.append(
            AuditResult(
                topic,
                counts,
                sum(part.left_out or 0 for part in parts),
                sum(part.comparison.uncopied.missing for part in parts),
                sum(part.unjudged for part in parts),
                sum(part.expired for part in parts),
                any(part.comparison.found.at_least for part in parts),
                tuple(
                    (part.partition, finding) for part in parts for finding in part.comparison.found.findings
                ),
                tuple(with_place(part.partition, part.problem) for part in parts if part.problem),
                worst(part.verdict for part in parts),
                may_repeat,
            )
        )
    return results
