"""Positions in a topic that is written and copied at both clusters: in any order, none skips a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.jobs.groups.decision import FollowReason
from mirror.jobs.groups.translation import FollowTranslator, OppositeCopy
from mirror.jobs.stored_lanes import StoredLanes
from mirror.lane.ledger import Ledger
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection
from tests.examples import examples

PLACE: Final = TopicPartition("t", 0)
THERE, BACK = GroupName("there"), GroupName("back")
OPPOSITE: Final = OppositeCopy(TopicSelection("t"), TopicNaming("*"), BACK)


class Record(NamedTuple):
    """A record, or a marker of a transaction, which is not copied (`is_data` is false)."""

    home: int
    number: int
    is_data: bool = True


@dataclass
class Pair:
    """Logs of both clusters, and what the lane that reads each of them has done and stored."""

    logs: tuple[list[Record], list[Record]] = ([], [])
    read: list[int] = field(default_factory=lambda: [0, 0])
    maps: list[list[tuple[int, int]]] = field(default_factory=lambda: [[], []])
    stored: list[tuple[int, int] | None] = field(default_factory=lambda: [None, None])

    def __post_init__(self) -> None:
        self.logs = ([], [])

    def write(self, side: int, is_data: bool) -> None:
        self.logs[side].append(Record(side, len(self.logs[side]), is_data))

    def copy(self, side: int) -> None:
        """Copy the next record of a log unless it came from the other."""
        at = self.read[side]
        if at < len(self.logs[side]):
            record = self.logs[side][at]
            if record.home == side and record.is_data:
                self.maps[side].append((at, len(self.logs[1 - side])))
                self.logs[1 - side].append(record)
            self.read[side] += 1

    def store(self, side: int) -> None:
        self.stored[side] = (self.read[side], len(self.maps[side]))

    def lanes(self, side: int, state: GroupName) -> StoredLanes:
        found = self.stored[side]
        if found is None:
            return StoredLanes({}, {})
        ledger, offset_map = Ledger(0), OffsetMap()
        ledger.next = found[0]
        for source, target in self.maps[side][: found[1]]:
            offset_map.add(source, target, 1)
        progress = LaneProgress(ledger, offset_map, target_topic="t")
        return StoredLanes({LaneKey(state, PLACE): progress}, {})

    def translator(self) -> FollowTranslator:
        opposite = {OPPOSITE: self.lanes(1, BACK)}
        return FollowTranslator(self.lanes(0, THERE), THERE, TopicNaming("*"), opposite=opposite)


_ACTS = st.lists(
    st.tuples(st.sampled_from(["write", "write", "mark", "copy", "copy", "store"]), st.integers(0, 1)),
    max_size=40,
)


def run(acts: list[tuple[str, int]]) -> Pair:
    pair = Pair()
    for act, side in acts:
        if act == "copy":
            pair.copy(side)
        elif act == "store":
            pair.store(side)
        else:
            pair.write(side, act == "write")
    return pair


@settings(max_examples=examples(500))
@given(_ACTS)
def test_no_record_before_the_translated_position_is_unread(acts: list[tuple[str, int]]) -> None:
    pair = run(acts)
    translator = pair.translator()
    for position in range(len(pair.logs[0]) + 2):
        move = translator.move(PLACE, position)
        if move.is_translated:
            have_read = set(pair.logs[0][:position])
            passed = {record for record in pair.logs[1][: move.becomes] if record.is_data}
            assert passed <= have_read


@given(_ACTS)
def test_the_end_of_idle_logs_is_translated_to_the_end(acts: list[tuple[str, int]]) -> None:
    pair = run([*acts, ("write", 0)])
    for _ in range(2):
        for side in (0, 1):
            for _ in range(len(pair.logs[side])):
                pair.copy(side)
    pair.store(0)
    pair.store(1)
    move = pair.translator().move(PLACE, len(pair.logs[0]))
    unread = {record for record in pair.logs[1][move.becomes :] if record.is_data}
    assert unread == set()


def test_without_stored_progress_of_the_way_back_there_is_no_position() -> None:
    pair = run([("write", 0), ("write", 1), ("copy", 0), ("store", 0)])
    assert pair.translator().move(PLACE, 1).skipped == FollowReason.TWO_WAY


def test_a_position_before_the_copies_is_not_translated_past_earlier_records() -> None:
    """After a switch-over the copies begin at the ends of both logs."""
    ledger, offset_map = Ledger(10), OffsetMap()
    ledger.next = 12
    offset_map.add(10, 7, 2)
    progress = LaneProgress(ledger, offset_map, target_topic="t")
    stored = StoredLanes({LaneKey(THERE, PLACE): progress}, {})
    translator = FollowTranslator(stored, THERE, TopicNaming("*"))
    assert translator.move(PLACE, 9).skipped == FollowReason.BEFORE_COPIES
    assert translator.move(PLACE, 10).becomes == 7
