"""Translation of positions at the source for groups that follow.

A topic that is copied in both directions has its records in another order at each cluster. A position is then
translated to the lower of two offsets of the destination: below the first, every copied record precedes the
position; below the second, every record of the destination's own producers has a copy that precedes it. No
record is skipped, and some may be read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mirror.jobs.groups.decision import FollowReason
from mirror.jobs.groups.log import GroupLog
from mirror.jobs.stored_lanes import StoredLanes
from mirror.jobs.translate_job import GONE, NOT_MIRRORED, PositionMove, Translator
from mirror.lane.offset_map import Precision
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection

UNTRANSLATED: Final = {
    NOT_MIRRORED: FollowReason.NOT_MIRRORED,
    GONE: FollowReason.TOPIC_DELETED,
    **{reason.value: reason for reason in (FollowReason.TWO_WAY, FollowReason.BEFORE_COPIES)},
}
"""Reason by `PositionMove.skipped`."""


class OppositeCopy(NamedTuple):
    """Datastream in the opposite direction. `state`: group of datastreams that shares its progress."""

    topics: TopicSelection
    naming: TopicNaming
    state: GroupName

    def returns(self, copy: str, topic: str) -> bool:
        """Return whether it copies a topic of the destination to a topic of the source."""
        return self.topics.matches(copy) and self.naming.destination(copy) == topic


class LazyLanes(Mapping[LaneKey, LaneProgress]):
    """Stored lanes of a datastream, parsed when a position requires one, and again after a change."""

    def __init__(self, log: GroupLog, state: GroupName, topics: TopicSelection) -> None:
        self._log = log
        self._state = state
        self._topics = topics
        self._keys: dict[LaneKey, None] = {}
        self._parsed: dict[LaneKey, tuple[bytes | None, LaneProgress]] = {}

    def refresh(self) -> None:
        """Find the lanes as of the last read of the progress topic."""
        found = (key for key in self._log.keys_of(self._state) if self._topics.matches(key.partition.topic))
        self._keys = dict.fromkeys(found)
        self._parsed = {key: progress for key, progress in self._parsed.items() if key in self._keys}

    def __getitem__(self, key: LaneKey) -> LaneProgress:
        if key not in self._keys:
            raise KeyError(key)
        raw = self._log.main_record(key)
        known = self._parsed.get(key)
        if known is None or known[0] is not raw:
            progress = self._log.stored(key)
            if progress is None:
                raise KeyError(key)
            known = self._parsed[key] = (raw, progress)
        return known[1]

    def __iter__(self) -> Iterator[LaneKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


@dataclass(frozen=True)
class FollowTranslator:
    """Translator of positions at the source, by the stored progress of a datastream and of those in the
    opposite direction. `has_other_writers`: others may write to the copies."""

    stored: StoredLanes
    state: GroupName
    naming: TopicNaming
    has_other_writers: bool = False
    opposite: Mapping[OppositeCopy, StoredLanes] = field(default_factory=dict)

    def move(self, place: TopicPartition, offset: int) -> PositionMove:
        """Translate the next offset that a group would read, or return why not in `skipped`."""
        copy = TopicPartition(self.naming.destination(place.topic), place.partition)
        if self.has_other_writers:
            return PositionMove(place, offset, copy, -1, skipped=FollowReason.TWO_WAY)
        move = Translator(self.stored, back=False).move(place, offset)
        if not move.is_translated:
            return move
        progress = self.stored.lanes[LaneKey(self.state, place)]
        if move.precision == Precision.BEFORE and move.becomes and offset < progress.ledger.start:
            return replace(move, becomes=-1, skipped=FollowReason.BEFORE_COPIES)
        for opposite, stored in self.opposite.items():
            if opposite.returns(copy.topic, place.topic):
                limit = _limit(stored, LaneKey(opposite.state, copy), offset)
                if limit is None:
                    return replace(move, becomes=-1, skipped=FollowReason.TWO_WAY)
                move = replace(move, becomes=min(move.becomes, limit), behind=True)
        return move


def _limit(stored: StoredLanes, key: LaneKey, offset: int) -> int | None:
    """Return `offset_returned_below` of a lane, None if its progress is unknown."""
    progress = stored.lanes.get(key)
    if progress is None or stored.is_current(progress) is False:
        return None
    return offset_returned_below(progress, offset)


def offset_returned_below(progress: LaneProgress, target: int) -> int:
    """Return the offset of a lane's source below which the copy of every record is below `target`."""
    if not len(progress.offset_map):
        return progress.next_offset
    found = progress.offset_map.backward(target)
    return progress.next_offset if found.precision is Precision.END else found.offset
