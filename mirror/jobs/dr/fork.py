"""The fork: offsets at which copying ended in a failover. The tail: records that were not copied. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from mirror.errors import InvalidRequest
from mirror.lane.progress import LaneProgress
from mirror.model.bounds import shown
from mirror.model.topics import TopicPartition
from mirror.wording import counted

PartitionOffsets = Mapping[str, Mapping[int, int]]
"""Maps each topic to a mapping of partition to offset."""

EXPORT: Final = "export"
"""Action that writes the tail (records that were not copied) to files, without a decision about it."""
_RECORDS: Final = re.compile(r"([0-9]{1,18})[ -]records?")


class PairRecord(BaseModel):
    """Base class for parts of the stored state of a pair."""

    model_config = ConfigDict(frozen=True)


class PartitionLoss(PairRecord):
    """Records of one partition that a failover loses: they are not at the target.

    `first`: source offset of the first missing record. `end`: last known end offset of the source, None if
    unknown. `least`, `most`: minimum and maximum number of missing records. `most` also counts offsets
    without a record. `most` is None if `end` is unknown. `seconds`: time between the last copied record and
    the last contact with the source, None if unknown.
    """

    topic: str
    partition: int
    first: int
    end: int | None
    least: int
    most: int | None
    seconds: float | None


class Loss(PairRecord):
    """All records that a failover loses, in each affected partition."""

    partitions: tuple[PartitionLoss, ...] = ()

    @property
    def least(self) -> int:
        """Minimum number of lost records."""
        return sum(partition.least for partition in self.partitions)

    @property
    def most(self) -> int:
        """Maximum number of lost records, without partitions whose end offset at the source is unknown."""
        return sum(partition.most or 0 for partition in self.partitions)

    @property
    def unknown(self) -> int:
        """Number of partitions whose end offset at the source is unknown."""
        return sum(partition.most is None for partition in self.partitions)

    @property
    def figure(self) -> str:
        """Value of the option `--accept-loss` that accepts this loss."""
        return f"{self.most}-records" + (f"+{self.unknown}-unknown" if self.unknown else "")

    def with_seconds_of(self, former: Loss) -> Loss:
        """Return this loss with the `seconds` of an earlier measurement, where available. The source was
        already lost then, so the earlier values remain valid."""
        seconds = {(lost.topic, lost.partition): lost.seconds for lost in former.partitions}
        return Loss(
            partitions=tuple(
                lost.model_copy(update={"seconds": seconds.get((lost.topic, lost.partition), lost.seconds)})
                for lost in self.partitions
            )
        )


class LossLimit(PairRecord):
    """Maximum loss that the operator accepts.

    `records`, `seconds`: None means unlimited. `unknown`: maximum number of partitions whose end offset at
    the source is unknown.
    """

    records: int | None = None
    seconds: float | None = None
    unknown: int = 0

    def excess(self, loss: Loss) -> str:
        """Return a message if the loss exceeds this limit, or else an empty string."""
        if loss.unknown > self.unknown:
            return f"the loss is unknown in {counted(loss.unknown, 'partition')}"
        if self.records is not None and loss.most > self.records:
            return f"{counted(loss.most, 'record')} would be lost, more than {self.records}"
        if self.seconds is None:
            return ""
        for lost in loss.partitions:
            if lost.most is not None and (lost.seconds is None or lost.seconds > self.seconds):
                how = "an unknown time" if lost.seconds is None else f"{lost.seconds:.1f} s"
                return f"{how} of {lost.topic}-{lost.partition} would be lost, more than {self.seconds:g} s"
        return ""


def record_limit(text: str) -> LossLimit | None:
    """Parse a loss limit such as `1000-records`. Return None for another unit."""
    found = _RECORDS.fullmatch(text.strip())
    return LossLimit(records=int(found[1])) if found else None


def accepted_limit(text: str, loss: Loss) -> LossLimit:
    """Return a loss limit that permits exactly the measured loss.

    Raises InvalidRequest if `text` differs from `loss.figure`.
    """
    if text.strip() != loss.figure:
        raise InvalidRequest(
            f"the loss is {loss.figure} now, not {shown(text)}",
            advice=f"check the loss with --dry-run, then accept it with --accept-loss {loss.figure}",
        )
    return LossLimit(records=loss.most, unknown=loss.unknown)


class TailDecision(PairRecord):
    """A decision about the uncopied records (the tail): replay, skip or export them.

    `ends`: source offsets at which the action ends. `records`: number of affected records. `folder`:
    destination of an export.
    """

    action: str
    at_ms: int
    operator: str
    selection: str
    records: int
    ends: Mapping[str, Mapping[int, int]] = {}
    folder: str = ""


class Fork(PairRecord):
    """Point at which a failover made the logs of the two clusters diverge.

    `cluster`: the former active cluster. `copied`: its offsets before which every record is at the target.
    `decided`: its offsets before which every record is replayed or skipped. `ends`: target offsets after the
    last copied record. `log_ends`: end offsets of the target at the failover, for partitions whose last
    copies have no checkpoint. `log_ends` is empty after the comparison of both clusters.
    """

    identity: str
    cluster: str
    at_ms: int
    copied: PartitionOffsets = {}
    ends: PartitionOffsets = {}
    log_ends: PartitionOffsets = {}
    definitions: Mapping[str, Mapping[str, Any]] = {}
    loss: Loss = Loss()
    decided: PartitionOffsets = {}
    decisions: tuple[TailDecision, ...] = ()

    @property
    def generation(self) -> int:
        """Number of decisions to replay or skip uncopied records so far."""
        return sum(decision.action != EXPORT for decision in self.decisions)

    def start(self, place: TopicPartition) -> int:
        """Return the first source offset of a partition that is neither copied, replayed nor skipped."""
        topic, number = place
        return max(self.copied.get(topic, {}).get(number, 0), self.decided.get(topic, {}).get(number, 0))

    def after(self, decision: TailDecision) -> Fork:
        """Return the fork with a decision about the uncopied records added."""
        update: dict[str, Any] = {"decisions": (*self.decisions, decision)}
        if decision.action != EXPORT:
            update["decided"] = merged(self.decided, decision.ends)
        return self.model_copy(update=update)

    def settled(self, found: Mapping[TopicPartition, tuple[int, int]]) -> Fork:
        """Return the fork updated with the results of comparing both clusters.

        `found`: source offset and target offset after the last copied record of each partition.
        """
        copied = document_of({place: source for place, (source, _) in found.items()})
        ends = document_of({place: target for place, (_, target) in found.items()})
        return self.model_copy(
            update={"copied": merged(self.copied, copied), "ends": merged(self.ends, ends), "log_ends": {}}
        )


def fork_of(
    identity: str,
    cluster: str,
    at_ms: int,
    lanes: Mapping[TopicPartition, LaneProgress],
    log_ends: Mapping[TopicPartition, int],
) -> Fork:
    """Return the fork that results from the progress of the stopped lanes.

    `log_ends`: end offsets of the target.
    """
    ends = {place: lane.target_end for place, lane in lanes.items()}
    return Fork(
        identity=identity,
        cluster=cluster,
        at_ms=at_ms,
        copied=document_of({place: lane.next_offset for place, lane in lanes.items()}),
        ends=document_of(ends),
        log_ends=document_of(
            {
                place: log_ends[place]
                for place, lane in lanes.items()
                if not lane.clean and log_ends.get(place, 0) > ends[place]
            }
        ),
    )


def loss_of(
    places: Iterable[TopicPartition],
    lanes: Mapping[TopicPartition, LaneProgress],
    source_ends: Mapping[TopicPartition, int],
    log_ends: Mapping[TopicPartition, int],
    seconds: Mapping[TopicPartition, float],
) -> Loss:
    """Return the records that a failover would lose now.

    `source_ends`: end offsets of the source that are newer than the stored ones. `log_ends`: end offsets of
    the target. Records just before these offsets may be copies without a checkpoint.
    """
    found = []
    for place in sorted({*places, *lanes}):
        lane = lanes.get(place)
        first = 0 if lane is None else lane.next_offset
        stored = None if lane is None or lane.source_end < 0 else lane.source_end
        end = source_ends.get(place, stored)
        most = None if end is None else max(end - first, 0)
        if most == 0:
            continue
        is_clean = lane is None or lane.clean
        extra = 0 if is_clean or lane is None else max(log_ends.get(place, 0) - lane.target_end, 0)
        found.append(
            PartitionLoss(
                topic=place.topic,
                partition=place.partition,
                first=first,
                end=end,
                least=max((most or 0) - extra, 0),
                most=most,
                seconds=seconds.get(place),
            )
        )
    return Loss(partitions=tuple(found))


def merged(before: PartitionOffsets, later: PartitionOffsets) -> PartitionOffsets:
    """Merge two sets of offsets. Offsets of `later` take precedence."""
    return {topic: {**before.get(topic, {}), **later.get(topic, {})} for topic in {**before, **later}}


def document_of(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    """Return offsets in their stored form: map each topic to the offsets of its partitions."""
    found: dict[str, dict[int, int]] = {}
    for place, offset in sorted(offsets.items()):
        found.setdefault(place.topic, {})[place.partition] = offset
    return found


def offsets_of(document: PartitionOffsets) -> dict[TopicPartition, int]:
    """Return offsets from their stored form; the inverse of `document_of`."""
    return {
        TopicPartition(topic, number): offset
        for topic, offsets in document.items()
        for number, offset in offsets.items()
    }
