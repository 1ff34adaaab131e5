"""Result of the comparison of one partition with its copy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mirror.audit.comparison import Comparison
from mirror.audit.verdicts import Verdict
from mirror.lane.progress import LaneProgress
from mirror.model.topics import TopicPartition
from mirror.protocol.control.offsets import OffsetAnswer


class CopyHistory(NamedTuple):
    """State of a copied partition that shows, compared with an earlier state, whether copies were lost.

    `life`: see `LaneProgress`. `losses`: number of losses so far. `target_id`: id of the destination topic.
    `target_end`, `target_epoch`: end and leader epoch of the destination log, read before the checkpoint; -1
    for an unknown epoch.
    """

    life: int
    losses: int
    target_id: bytes
    checkpoint: int
    target_end: int
    target_epoch: int = -1

    def continues(self, before: CopyHistory) -> bool:
        """Return whether all records copied before the earlier state may still exist. After a change of the
        leader epoch, `truncated_logs` must decide."""
        is_longer = self.checkpoint >= before.checkpoint and self.target_end >= before.target_end
        return is_longer and self[:3] == before[:3]

    def has_new_leader(self, before: CopyHistory) -> bool:
        """Return whether the destination has another leader epoch than in an earlier state with a known
        one."""
        return before.target_epoch not in (-1, self.target_epoch)


class StoredCopy(NamedTuple):
    """Stored progress of a partition, and the end offset of its copy, which was read before the progress."""

    progress: LaneProgress | None
    target_end: int
    target_epoch: int = -1

    @classmethod
    def of(cls, progress: LaneProgress | None, end: OffsetAnswer | None) -> StoredCopy:
        """Combine the stored progress with the end of the copy. An unknown end counts as an empty log."""
        return cls(progress, 0) if end is None else cls(progress, end.offset, end.leader_epoch)

    @property
    def history(self) -> CopyHistory | None:
        """History of the lane; None if there is no stored progress."""
        stored = self.progress
        if stored is None:
            return None
        ends = self.target_end, self.target_epoch
        return CopyHistory(stored.life, len(stored.gaps), stored.target_id, stored.next_offset, *ends)


@dataclass(frozen=True)
class PartitionVerdict:
    """Result of the comparison of one partition.

    `problem`: reason why the partition could not be compared, or an empty string.

    `left_out`: number of source records that were filtered or dead-lettered, according to the checkpoint;
    None without a stored state, because such records cannot be distinguished from missing records. `expired`:
    number of copied offsets that the destination has deleted and the source still has, if this is permitted.
    `unjudged`: number of source offsets after the checkpoint, which are not compared. `lane`: see
    `CopyHistory`.
    """

    partition: TopicPartition
    source_range: tuple[int, int] = (0, 0)
    target_range: tuple[int, int] = (0, 0)
    comparison: Comparison = field(default_factory=Comparison)
    problem: str = ""
    left_out: int | None = None
    expired: int = 0
    unjudged: int = 0
    lane: CopyHistory | None = None

    @property
    def missing(self) -> int:
        """Number of missing records, including records that the lane never copied."""
        return self.comparison.found.counts.missing + self.comparison.uncopied.missing

    @property
    def surplus(self) -> int:
        """Number of records that exist only at the destination."""
        return self.comparison.found.counts.duplicated + self.comparison.found.counts.foreign

    @property
    def verdict(self) -> Verdict:
        """Return the most severe verdict on the partition."""
        if self.problem:
            return Verdict.UNKNOWN
        found = self.comparison
        return found.found.counts.verdict(found.uncopied.missing, self.unjudged)

    @property
    def is_equal(self) -> bool:
        """Return whether source and destination are equal except for records that were left out
        intentionally."""
        counts = self.comparison.found.counts
        return not (self.problem or self.missing or self.surplus or counts.altered or counts.reordered)

    def to_json(self) -> dict[str, Any]:
        """Return the audit result as a JSON object."""
        found = self.comparison.found
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "equal": self.is_equal,
            "source_range": list(self.source_range),
            "destination_range": list(self.target_range),
            "records": found.counts.equal,
            "missing": self.missing,
            "altered": found.counts.altered,
            "reordered": found.counts.reordered,
            "surplus": self.surplus,
            "compacted": found.counts.target_compacted + found.counts.source_compacted,
            "left_out": self.left_out,
            "expired": self.expired,
            "at_least": found.at_least,
            "differences": [finding.to_json() for finding in found.findings],
            "problem": self.problem,
        }
