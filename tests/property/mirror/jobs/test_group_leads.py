"""Properties of groups that follow in both directions, over any history of reads at both clusters.

The model has the real offset map of a lane, whose destination has records of other producers between the
copies. Any process may die between any two requests of a round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.jobs.groups.both_ways import (
    confirmed,
    counterparts_of,
    is_led_by,
    ruled,
    source_before_deletion,
)
from mirror.jobs.groups.decision import FollowReason, SyncedPosition
from mirror.jobs.groups.lead import Side
from mirror.jobs.groups.record import FollowedGroup, FollowedPosition, read_group, write_group
from mirror.jobs.stored_lanes import StoredLanes
from mirror.jobs.translate_job import Translator
from mirror.lane.ledger import Ledger
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code
from mirror.protocol.control.groups import ListedGroup
from tests.examples import examples

R = FollowReason
PLACE: Final = TopicPartition("t", 0)
COPY: Final = TopicPartition("copy.t", 0)
KEY: Final = LaneKey(GroupName("orders"), PLACE)
STABLE: Final = ListedGroup("consumer", "Stable")
EMPTY: Final = ListedGroup("consumer", "Empty")
EXPLAINED: Final = frozenset({R.BOTH_CHANGED, R.WOULD_MOVE_BACK, R.BEFORE_COPIES, R.NOTHING_YET, R.GONE})
"""Reasons for which positions may differ while no group has members."""


@dataclass
class Logs:
    """Logs of both clusters. `copies`: source and destination offset of each copied record. `source_end`,
    `target_end`: ends of the logs."""

    copies: list[tuple[int, int]] = field(default_factory=list)
    source_end: int = 0
    target_end: int = 0

    def add(self, kind: str) -> None:
        """Add a record that is copied, a marker at the source, or a record of another producer at the
        destination."""
        if kind == "copied":
            self.copies.append((self.source_end, self.target_end))
        self.source_end += kind != "foreign"
        self.target_end += kind != "marker"

    def stored(self, count: int) -> StoredLanes:
        """Return the lanes as of a checkpoint after this number of copied records."""
        offset_map = OffsetMap()
        for source, target in self.copies[:count]:
            offset_map.add(source, target, 1)
        following = self.copies[count][0] if count < len(self.copies) else self.source_end
        ledger = Ledger(0)
        ledger.next = following
        progress = LaneProgress(ledger, offset_map, target_topic=COPY.topic)
        return StoredLanes({KEY: progress}, {})

    def end(self, side: Side) -> int:
        """Return the end of the log of a cluster."""
        return self.source_end if side is Side.SOURCE else self.target_end

    def before(self, side: Side, position: float) -> set[int]:
        """Return the numbers of the copied records that precede a position."""
        column = 0 if side is Side.SOURCE else 1
        return {number for number, copy in enumerate(self.copies) if copy[column] < position}


class Died(Exception):
    """The process died."""


@dataclass
class World:
    """A group at both clusters, and the process that synchronises it.

    `read`: copied records that the group has read since it was last set back, or was told to skip. `known`:
    positions as of the last synchronisation, or when they were last found changed at both clusters. `reset`:
    clusters at which the group was set back since the positions last corresponded. `is_unsure`: a process
    has died after a commit, before it stored the result. `joins`: cluster at which a member joins during the
    next commit. `dies`: request of the next round at which the process dies.
    """

    logs: Logs = field(default_factory=Logs)
    checkpoint: int = 0
    positions: dict[Side, int | None] = field(
        default_factory=lambda: {Side.SOURCE: 0, Side.DESTINATION: None}
    )
    members: set[Side] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    known: dict[Side, int | None] = field(default_factory=lambda: {Side.SOURCE: 0, Side.DESTINATION: None})
    reset: set[Side] = field(default_factory=set)
    stored: bytes = field(default_factory=lambda: write_group(FollowedGroup("g")))
    is_unsure: bool = False
    joins: Side | None = None
    dies: str = ""
    commits: int = 0
    reason: FollowReason | None = None

    def consume(self, side: Side, count: int) -> None:
        """Let a member of the group read and commit up to `count` offsets at a cluster."""
        self.members.add(side)
        if side is Side.SOURCE and self.positions[side] is None:
            self._seek_back(side, 0)
        before = self.positions[side] or 0
        after = max(before, min(before + count, self.logs.end(side)))
        self.read |= self.logs.before(side, after) - self.logs.before(side, before)
        self.positions[side] = after

    def seek(self, side: Side, position: int) -> None:
        """Let an operator set the position at a cluster where the group has no members."""
        before = self.positions[side]
        position = min(position, self.logs.end(side))
        if side in self.members or before is None:
            return
        if position < before:
            self._seek_back(side, position)
        self.read |= self.logs.before(side, position)
        self.positions[side] = position

    def _seek_back(self, side: Side, position: int) -> None:
        """Forget that records before the known position have been read. Nobody can know of a reset to a later
        position."""
        known = self.logs.before(side, min(self.positions[side] or inf, self.known[side] or 0))
        self.read -= known - self.logs.before(side, position)
        self.reset.add(side)

    def expire(self) -> None:
        """Delete the position at the source, if the group has no members there."""
        if Side.SOURCE not in self.members | self.moved:
            self.positions[Side.SOURCE] = None

    @property
    def moved(self) -> set[Side]:
        """Clusters at which the group has moved since its positions were last known."""
        return {side for side, at in self.positions.items() if at is not None and at != self.known[side]}

    def _note_positions(self) -> None:
        self.known |= {side: at for side, at in self.positions.items() if at is not None}

    def round(self, joins: Side | None = None, dies: str = "") -> None:
        """Synchronise the group, and check the commits."""
        self.reason, self.joins, self.dies = None, joins, dies
        try:
            self._round()
        except Died:
            return

    def _round(self) -> None:
        before = read_group(self.stored).positions.get(PLACE)
        source, target = self.positions[Side.SOURCE], self.positions[Side.DESTINATION]
        if before is not None and before.lead is not None and before.lead.intent is not None:
            self._note_applied(*before.lead.intent)
        is_deleted = source is None
        if source is None:
            if before is None or before.synced is None:
                self.reason = R.GONE
                return
            source = source_before_deletion(before)
        here, there = (STABLE if side in self.members else EMPTY for side in Side)
        stored = self.logs.stored(self.checkpoint)
        move = Translator(stored, back=False).move(PLACE, source)
        looked = FollowedPosition(source, target, COPY, R.NOTHING_YET)
        if before is not None:
            looked = before._replace(source=source, target=target)
        found = ruled(looked, counterparts_of(stored, KEY, move, target), here, there)
        if is_deleted and not is_led_by(found, Side.DESTINATION):
            self.reason = R.GONE
            return
        if found.reason.commits:
            self._save(found, "intent")
            found = self._committed(found)
        self.reason = found.reason
        self._save(found, "result")

    def _note_applied(self, leader: Side, intended: SyncedPosition) -> None:
        """Do not count a position as a move of the group if it is the one that was to be committed."""
        written, offset = (
            (Side.DESTINATION, intended.target) if leader is Side.SOURCE else (Side.SOURCE, intended.source)
        )
        if self.positions[written] == offset:
            self.known[written] = offset

    def _save(self, position: FollowedPosition, name: str) -> None:
        if self.dies == f"before {name}":
            raise Died
        self.stored = write_group(FollowedGroup("g", positions={PLACE: position}))
        if name == "result":
            if position.reason.follows or position.reason is R.BOTH_CHANGED:
                self._note_positions()
                self.is_unsure = False
            if position.reason.follows:
                self.reset.clear()
        if self.dies == f"after {name}":
            raise Died

    def _committed(self, position: FollowedPosition) -> FollowedPosition:
        """Send the commit, which the coordinator rejects if the group has members."""
        assert position.lead is not None
        assert position.lead.intent is not None
        leader, intended = position.lead.intent
        written = Side.DESTINATION if leader is Side.SOURCE else Side.SOURCE
        assert written not in self.members, "would overrule members"
        if self.joins is written:
            self.members.add(written)
            return confirmed(position, Code.UNKNOWN_MEMBER_ID)
        offset = intended.target if written is Side.DESTINATION else intended.source
        self._check(leader, offset, position.synced)
        self.positions[written] = offset
        self.commits += 1
        self._note_positions()
        self.reset.clear()
        self.is_unsure = True
        return confirmed(position, None if self.dies == "lost response" else Code.NONE)

    def _check(self, leader: Side, offset: int, last: SyncedPosition | None) -> None:
        """Check a commit. `last`: positions as of the last synchronisation."""
        written = Side.DESTINATION if leader is Side.SOURCE else Side.SOURCE
        before = self.positions[written]
        if last is not None:
            former = last.target if written is Side.DESTINATION else last.source
            if self.is_unsure and before == former:
                return  # set back to its former position, it looks like after a commit that was not applied
            assert self.moved != set(Side), "the group has moved at both clusters"
        assert self.logs.before(written, offset) <= self.read, "skips records that the group has not read"
        if before is not None and offset < before:
            assert leader in self.reset, "moves back without a reset at the cluster that leads"

    @property
    def is_level(self) -> bool:
        """Return whether the same copied records precede both positions."""
        preceding = [self.logs.before(side, self.positions[side] or 0) for side in Side]
        return self.positions[Side.DESTINATION] is not None and preceding[0] == preceding[1]

    def rest(self) -> None:
        """Synchronise without members and with a complete checkpoint until nothing is committed."""
        self.members.clear()
        self.checkpoint = len(self.logs.copies)
        for _ in range(3):
            self.round()
        before = self.commits
        self.round()
        assert self.commits == before, "commits without end"


_SIDES = st.sampled_from(Side)
_KINDS = st.sampled_from(["copied", "copied", "copied", "marker", "foreign"])
_COUNTS = st.integers(0, 8)
_DEATHS = st.sampled_from(
    ["", "", "before intent", "after intent", "before result", "after result", "lost response"]
)
_EVENTS = st.one_of(
    st.tuples(st.just("add"), st.lists(_KINDS, min_size=1, max_size=5)),
    st.tuples(st.just("checkpoint"), _COUNTS),
    st.tuples(st.just("consume"), _SIDES, _COUNTS),
    st.tuples(st.just("leave"), _SIDES),
    st.tuples(st.just("expire")),
    st.tuples(st.just("round"), st.none() | _SIDES, _DEATHS),
)
_SEEK = st.tuples(st.just("seek"), _SIDES, st.integers(0, 15))


def played(events: list[tuple[Any, ...]]) -> World:
    """Return a world after a history."""
    world = World()
    for name, *values in events:
        if name == "add":
            for kind in values[0]:
                world.logs.add(kind)
        elif name == "checkpoint":
            world.checkpoint = min(world.checkpoint + values[0], len(world.logs.copies))
        elif name == "leave":
            world.members.discard(values[0])
        else:
            getattr(world, name)(*values)
    return world


@settings(max_examples=examples(3000))
@given(st.lists(_EVENTS | _SEEK, max_size=30))
def test_no_record_is_skipped_and_members_are_never_overruled(events: list[tuple[Any, ...]]) -> None:
    world = played(events)
    world.rest()
    assert world.is_level or world.reason in EXPLAINED


@settings(max_examples=examples(1000))
@given(st.lists(st.tuples(st.lists(_KINDS, max_size=5), _SIDES, _COUNTS, _DEATHS), max_size=12))
def test_a_group_that_goes_there_and_back_has_equal_positions(
    stays: list[tuple[list[str], Side, int, str]],
) -> None:
    """The group reads at one cluster at a time; a round ends before it starts at the other one."""
    world = played([("add", ["copied"]), ("checkpoint", 1), ("round",)])
    for kinds, side, count, dies in stays:
        for kind in kinds:
            world.logs.add(kind)
        world.consume(side, count)
        world.round(dies=dies)
        world.rest()
        assert world.is_level
        assert world.reason is not None
        assert world.reason.follows


def settled_world() -> World:
    """Return a world in which the group has read 4 of 8 copied records at the source, and follows."""
    world = played([("add", ["foreign", "foreign", *["copied"] * 8])])
    world.consume(Side.SOURCE, 4)
    world.rest()
    assert world.positions == {Side.SOURCE: 4, Side.DESTINATION: 6}
    return world


def test_a_group_is_followed_at_either_cluster() -> None:
    world = settled_world()
    world.consume(Side.DESTINATION, 2)
    world.round()
    assert (world.reason, world.positions[Side.SOURCE]) == (R.RETURNED, 6)
    world.round()
    assert world.reason is R.CURRENT
    world.members.clear()
    world.seek(Side.DESTINATION, 3)
    world.round()
    assert (world.reason, world.positions[Side.SOURCE]) == (R.RESET_THERE, 1)
    world.consume(Side.SOURCE, 6)
    world.round()
    assert (world.reason, world.positions[Side.DESTINATION]) == (R.FORWARD, 9)
    world.consume(Side.DESTINATION, 1)
    world.round()
    assert (world.reason, world.positions[Side.SOURCE]) == (R.MEMBERS_HERE, 7)


def test_moves_at_both_clusters_are_reported_until_one_of_them_moves_on() -> None:
    world = settled_world()
    world.consume(Side.SOURCE, 1)
    world.members.clear()
    world.consume(Side.DESTINATION, 2)
    for _ in range(2):
        world.round()
        assert (world.reason, world.positions) == (R.BOTH_CHANGED, {Side.SOURCE: 5, Side.DESTINATION: 8})
    world.consume(Side.DESTINATION, 1)
    world.round()
    assert (world.reason, world.positions[Side.SOURCE]) == (R.RETURNED, 7)


@pytest.mark.parametrize("dies", ["before intent", "after intent", "lost response", "before result"])
def test_a_position_of_the_process_itself_is_no_move_of_the_group(dies: str) -> None:
    world = settled_world()
    world.consume(Side.DESTINATION, 2)
    world.round(dies=dies)
    world.consume(Side.DESTINATION, 1)
    world.round()
    is_applied = dies in ("lost response", "before result")
    assert world.reason in (R.RETURNED, R.CURRENT)
    assert world.positions == {Side.SOURCE: 7, Side.DESTINATION: 9}
    assert world.commits == (3 if is_applied else 2)


def test_positions_in_records_of_other_producers_are_lower_bounds() -> None:
    world = settled_world()
    for kind in ["foreign", "foreign", "copied"]:
        world.logs.add(kind)
    world.consume(Side.DESTINATION, 5)
    world.rest()
    assert world.positions == {Side.SOURCE: 8, Side.DESTINATION: 11}
    assert world.commits == 2
