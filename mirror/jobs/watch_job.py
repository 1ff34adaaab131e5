"""Continuous audit of a copy: each run compares the records copied since the previous run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mirror.audit.reader import NO_END
from mirror.audit.watermark import CompleteThrough
from mirror.jobs.partition_verdict import CopyHistory, PartitionVerdict
from mirror.jobs.verify_job import VerifyJob, audit_copy, places_of, truncated_copies
from mirror.model.topics import TopicPartition
from mirror.protocol.control.offsets import LATEST
from mirror.replication.context import EngineContext


@dataclass
class AuditWatch:
    """A continuous audit without a service, with its state between runs."""

    job: VerifyJob
    watermarks: CompleteThrough = field(default_factory=CompleteThrough)
    _positions: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """Source and destination offset up to which each partition is compared."""
    _lanes: dict[TopicPartition, CopyHistory] = field(default_factory=dict)

    async def run_once(self, bench: EngineContext) -> list[PartitionVerdict]:
        """Compare the records that were copied since the last call, and advance the watermarks.

        If a partition may have lost records since the last call, it is compared again from its first record.
        Raises TopicMissing, Unreachable and the errors of reading; the call can then be repeated.
        """
        places = await places_of(bench, self.job)
        source = bench.cluster(self.job.source)
        at_ms = bench.clock.now_ms()
        answers = await source.offsets(dict.fromkeys(places, LATEST))
        ends = {place: NO_END if answer.error else answer.offset for place, answer in answers.items()}
        self.watermarks.observe(at_ms, ends)
        job = replace(self.job, judges_tail=False)
        ranges = {place: (self._positions.get(place, (0, 0))[0], NO_END) for place in places}
        resumes = {place: target for place, (_, target) in self._positions.items()}
        verdicts = await audit_copy(bench, replace(job, ranges=ranges, resumes=resumes))
        lost = await truncated_copies(bench, job, self._of_former_epochs(verdicts))
        again = {
            verdict.partition: (0, NO_END)
            for verdict in verdicts
            if verdict.partition in lost or not self._continues(verdict)
        }
        if again:
            for place in again:
                self.watermarks.of(place).restart()
            verdicts = [verdict for verdict in verdicts if verdict.partition not in again]
            verdicts += await audit_copy(bench, replace(job, ranges=again))
        for verdict in verdicts:
            self._note(verdict)
        return verdicts

    def _continues(self, verdict: PartitionVerdict) -> bool:
        before = self._lanes.get(verdict.partition)
        return before is None or (verdict.lane is not None and verdict.lane.continues(before))

    def _of_former_epochs(
        self, verdicts: Iterable[PartitionVerdict]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Map partitions whose copy has a new leader to the earlier leader epoch and compared end offset."""
        return {
            place: (before.target_epoch, self._positions[place][1])
            for verdict in verdicts
            if (before := self._lanes.get(place := verdict.partition)) is not None
            and verdict.lane is not None
            and verdict.lane.has_new_leader(before)
        }

    def _note(self, verdict: PartitionVerdict) -> None:
        if verdict.problem:
            return  # the next call compares the same records
        place, lane = verdict.partition, verdict.lane
        if lane is None:
            self._positions.pop(place, None)
            self._lanes.pop(place, None)
            return
        self._lanes[place] = lane
        self._positions[place] = verdict.source_range[1], verdict.target_range[1]
        is_clean = not verdict.missing and verdict.comparison.found.counts.verdict().is_intact
        self.watermarks.of(place).compared(verdict.source_range[1], is_clean=is_clean)
