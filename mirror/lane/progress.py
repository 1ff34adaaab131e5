"""Progress of a lane, and its records in the progress topic. Pure.

A lane has one main record with the key `group/topic/partition`. A long offset map is stored in further
records ("chunks") of 256 runs, with the keys `group/topic/partition/map/<number>`. All values are JSON;
readers ignore unknown fields. A chunk is in the same batch as the main record that refers to it, so both are
consistent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from mirror.errors import UnexpectedCluster
from mirror.lane.ledger import Ledger, SkippedOffsets
from mirror.lane.offset_map import CHUNK, OffsetMap
from mirror.lane.out_batch import FoundRecords, OutBatch
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.topics import TopicPartition

FORMAT: Final = 1
MAIN_PARTS: Final = 3
"""Number of key parts of a main record: group, topic, partition."""

Owner = tuple[int, int]
"""Producer id and epoch of a lane's owner."""
Version = tuple[str, int, int]
"""Identity of a stored record: (engine that wrote it, epoch ms, next offset).

The engine is empty if an older version wrote the record.
"""


class Contents(IntEnum):
    """Whether a lane's progress in memory is read, valid, or broken."""

    UNREAD = 0
    """The stored progress must be read."""
    FOUND = 1
    """The stored progress was read, but not yet compared with the clusters."""
    LOADED = 2
    BROKEN = 3
    """An operation failed halfway; the progress is invalid and must not be stored."""


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Identity of the source log: topic id, leader epoch of the last record read, and cluster id. The ids are
    empty and the epoch is -1 if unknown."""

    topic_id: bytes = b""
    leader_epoch: int = -1
    cluster_id: str = ""


@dataclass(slots=True)
class LaneProgress:
    """Stored state from which a lane resumes: checkpoint, ledger, offset map and owner.

    `target_id`, `target_topic`: id and name of the destination topic; `target_cluster`: id of its cluster;
    `target_next`: destination offset after the lane's last record. `restart_ms`: time of the last restart of
    the datastream, 0 if there was none. `clean`: the lane was drained, and has written nothing since. `life`:
    number of times that the source log was replaced or has diverged. `gaps`: sentences about losses, newest
    last; `target_loss`: sentence about a loss at the destination that stopped the lane. `owner`: last
    producer id and epoch of the lane, None if it never wrote. `version`: identity of the stored record, None
    if it was not loaded. `caught_up`: `LatencyExemption.name` of the last exemption that
    ended by catching up, 0 if none. `owned_from`: destination offset from which `owner` wrote all records of
    the map, None if unknown, as with transactions. `source_end`: last known end of the source log, -1 if
    unknown.
    """

    ledger: Ledger
    offset_map: OffsetMap
    source: SourceIdentity = SourceIdentity()
    target_id: bytes = b""
    target_next: int | None = None
    clean: bool = False
    life: int = 0
    pause: Mapping[str, Any] | None = None
    gaps: list[str] = field(default_factory=list)
    target_loss: str = ""
    target_topic: str = ""
    target_cluster: str = ""
    restart_ms: int = 0
    owner: Owner | None = None
    version: Version | None = None
    caught_up: int = 0
    owned_from: int | None = None
    source_end: int = -1

    @property
    def next_offset(self) -> int:
        """The checkpoint: source offset to resume from."""
        return self.ledger.next

    @property
    def target_end(self) -> int:
        """End offset of the destination log, assuming that it has lost no record."""
        return max(self.offset_map.target_end or 0, self.target_next or 0)

    def begin_elsewhere(self) -> None:
        """Reset all progress except `owner`, because the lane now writes to another destination."""
        self.ledger, self.offset_map = Ledger(0), OffsetMap()
        self.source = SourceIdentity()
        self.target_id, self.target_next, self.target_cluster = b"", None, ""
        self.owned_from = None
        self.life, self.gaps, self.target_loss = 0, [], ""

    def begin_life(self, position: int, sentence: str, *, same_log: bool, leader_epoch: int) -> None:
        """Start a new ledger at `position`, with `sentence` as reason. `same_log`: keep source identity and
        offset map."""
        self.life += 1
        self.gaps.append(sentence)
        self.ledger = Ledger(position)
        if same_log:
            self.offset_map.rewind(position)
        else:
            self.offset_map = OffsetMap()
        before = self.source if same_log else SourceIdentity()
        self.source = SourceIdentity(before.topic_id, leader_epoch, before.cluster_id)

    def begin_target(self, sentence: str) -> None:
        """Start in a new destination log that contains none of the lane's records."""
        self.gaps.append(sentence)
        self.offset_map = OffsetMap()
        self.target_id, self.target_loss, self.owned_from = b"", "", None
        if self.target_next is not None:
            self.target_next = 0

    def pass_marker(self) -> None:
        """Advance the destination offset over the transaction marker that follows the mirrored records."""
        if self.target_next is not None:
            self.target_next += 1

    def find(self, found: Sequence[FoundRecords | SkippedOffsets], target_next: int) -> None:
        """Add copies that were found at the destination, in source order from the checkpoint on."""
        for stretch in found:
            if isinstance(stretch, SkippedOffsets):
                self.ledger.pass_over(stretch)
            else:
                source, target, count = stretch
                self.ledger.enter_batch(((source, count),), ())
                self.offset_map.add(source, target, count)
        self.target_next, self.owned_from = target_next, None

    def lose_target(self, first: int, place: TopicPartition) -> None:
        """Note that the destination lost the records from offset `first` on. `place`: source partition."""
        lost = f"{first} to {self.target_end - 1}"
        self.target_loss = f"the destination lost offsets {lost} of {place}"
        self.gaps.append(self.target_loss)
        self.offset_map.forget_targets(first)

    def enter(self, outgoing: OutBatch, place: TopicPartition) -> int:
        """Add an acknowledged batch to ledger and offset map. Return the number of foreign destination
        offsets before it.

        Foreign offsets are those that other producers wrote before the batch. `place`: source partition.
        """
        target, foreign, origin = outgoing.target, 0, outgoing.made_from
        self.ledger.enter_batch(outgoing.runs, () if origin is None else origin.passed)
        if target < self.target_end:
            self.lose_target(target, place)
        elif self.target_next is not None and target > self.target_next:
            foreign = target - self.target_next
        self.target_next = target + outgoing.count
        for first, count in outgoing.runs:
            self.offset_map.add(first, target, count)
            target += count
        return foreign

    def to_store(
        self, clean: bool, pause: Mapping[str, Any] | None, spec: LaneSpec, source_end: int
    ) -> LaneProgress:
        """Return the progress to store. The result shares the ledger and the map of this object."""
        return LaneProgress(
            self.ledger,
            self.offset_map,
            self.source,
            self.target_id,
            self.target_next,
            clean,
            self.life,
            pause,
            self.gaps,
            self.target_loss,
            spec.destination_topic,
            self.target_cluster,
            max(self.restart_ms, spec.restart_ms),
            self.owner,
            caught_up=self.caught_up,
            owned_from=self.owned_from,
            source_end=source_end,
        )

    def is_of(self, target_topic: str, target_id: bytes, restart_ms: int) -> bool:
        """Return whether this progress belongs to the destination topic, and was made after the restart. An
        empty topic id means unknown. A record written by hand has no destination, and always matches."""
        if self.restart_ms < restart_ms and self.target_topic:
            return False
        is_same_topic = bool(target_id) and self.target_id == target_id
        return is_same_topic or self.target_topic in ("", target_topic)

    def require_cluster(self, name: str, cluster_id: str) -> None:
        """Raise UnexpectedCluster if the mirrored records are on another cluster."""
        if self.target_cluster and cluster_id and cluster_id != self.target_cluster:
            raise UnexpectedCluster.at(name, self.target_cluster, cluster_id)


Entry = tuple[bytes, bytes | None]
"""Key and value of a progress record to write; a value of None is a tombstone."""


def main_key(key: LaneKey) -> bytes:
    """Return the key of a lane's main record in the progress topic."""
    return f"{key.group}/{key.partition.topic}/{key.partition.partition}".encode()


def main_of(key: bytes) -> bytes:
    """Return the key of the lane's main record, for the key of a main record or of a chunk."""
    return key if key.count(b"/") < MAIN_PARTS else b"/".join(key.split(b"/")[:MAIN_PARTS])


def chunk_key(key: LaneKey, number: int) -> bytes:
    """Return the key of a chunk of a lane's offset map in the progress topic."""
    return main_key(key) + b"/map/%d" % number


def entries_of(
    key: LaneKey, progress: LaneProgress, written_ms: int, engine: str = ""
) -> tuple[list[Entry], int]:
    """Return the progress records to write, and the value of `offset_map.sealed` after the write. `engine`:
    name of the writer."""
    full, rest = progress.offset_map.unsealed()
    entries: list[Entry] = [
        (chunk_key(key, number), _compact([list(run) for run in runs])) for number, runs in full
    ]
    offset_map = progress.offset_map
    sealed = offset_map.first_index + len(offset_map) - len(rest)
    document: dict[str, Any] = {
        "format": FORMAT,
        "next_offset": progress.next_offset,
        "written_ms": written_ms,
        "ledger": progress.ledger.to_json(),
        "map": {"first": offset_map.first_index, "sealed": sealed, "runs": [list(run) for run in rest]},
        "source_id": progress.source.topic_id.hex(),
        "epoch": progress.source.leader_epoch,
        "target_id": progress.target_id.hex(),
        "clean": progress.clean,
        "engine": engine,
        "source_end": progress.source_end,
        "owner": list(progress.owner or ()),
    }
    optional: dict[str, Any] = {"life": progress.life, "pause": progress.pause, "gaps": progress.gaps}
    if progress.target_loss:
        optional["target_loss"] = progress.target_loss
    if progress.source.cluster_id:
        optional["source_cluster"] = progress.source.cluster_id
    if progress.target_cluster:
        optional["target_cluster"] = progress.target_cluster
    if progress.restart_ms:
        optional["restart"] = progress.restart_ms
    if progress.caught_up:
        optional["caught_up"] = progress.caught_up
    if progress.target_topic != key.partition.topic:
        optional["target"] = progress.target_topic
    document |= {name: value for name, value in optional.items() if value}
    if progress.target_next is not None:
        document["target_next"] = progress.target_next
    if progress.owned_from is not None:
        document["owned_from"] = progress.owned_from
    entries.append((main_key(key), _compact(document)))
    return entries, sealed


def forgotten_chunks(key: LaneKey, before: int, after: int) -> list[Entry]:
    """Return tombstones for chunks of the offset map that are empty after pruning. `before`: first run that
    may be stored. `after`: first run that remains."""
    return [(chunk_key(key, number), None) for number in range(before // CHUNK, after // CHUNK)]


def _compact(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
