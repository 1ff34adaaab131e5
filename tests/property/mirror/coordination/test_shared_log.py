"""Parts, snapshots and sessions of a log that instances share."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.coordination.store.codec import encode_command, encode_state
from mirror.coordination.store.commands import (
    Change,
    Command,
    EndSession,
    EphemeralNode,
    Heartbeat,
    OpenSession,
    Operation,
    SnapshotNote,
)
from mirror.coordination.store.heartbeats import SessionContact, SilenceObserver
from mirror.coordination.store.log_state import LogState, apply_record
from mirror.coordination.store.machine import SessionRecord
from mirror.coordination.store.parts import LONGEST_GAP, PART_OVERHEAD, split_command
from mirror.coordination.store.snapshots import SnapshotShelf, SnapshotStream, end_key, part_key
from mirror.errors import NewerFormat
from mirror.model.nodes import NewNode, NodeWrite, SessionState
from tests.examples import examples

LARGEST = PART_OVERHEAD + 20
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(NewNode, st.sampled_from(["/a", "/b/ü", "/c"]), st.binary(max_size=60)),
    st.builds(NodeWrite, st.sampled_from(["/a", "/c"]), st.binary(max_size=60), st.integers(0, 2)),
    st.builds(EphemeralNode, st.just("/live/i-"), st.binary(max_size=4), st.booleans()),
)
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(OpenSession, st.sampled_from(["s", "t"]), st.sampled_from([0, 6_000])),
    st.builds(Heartbeat, st.sampled_from(["s", "t"]), st.integers(0, 5)),
    st.builds(EndSession, st.sampled_from(["s", "t"]), st.none() | st.integers(0, 5)),
    st.builds(
        Change, st.sampled_from(["s", "t"]), st.integers(1, 9), st.lists(operations, max_size=3).map(tuple)
    ),
    st.builds(SnapshotNote, st.integers(0, 9), st.integers(0, 9)),
)


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Records of two writers: parts are interleaved, some missing, some repeated; and foreign records."""
    records: list[list[bytes]] = []
    for writer in (b"a" * 16, b"b" * 16):
        parts = []
        for number, command in enumerate(draw(st.lists(commands, max_size=8)), 1):
            for part in split_command(writer, number, encode_command(command), LARGEST):
                parts += [part] * draw(st.sampled_from([1, 1, 1, 1, 1, 0, 2]))
        records.append(parts)
    merged = []
    while any(records):
        source = draw(st.sampled_from([one for one in records if one]))
        merged.append(source.pop(0))
        if draw(st.integers(0, 9)) == 0:
            merged.append(draw(st.binary(max_size=8)))
    return merged


def played(records: Sequence[bytes], log: LogState | None = None) -> LogState:
    """The state after records, from the next offset of a state."""
    log = log or LogState()
    for offset in range(log.next_offset, len(records)):
        log, _ = apply_record(log, offset, records[offset])
    return log


def content(log: LogState) -> object:
    return b"".join(encode_state(log.state)), log.unfinished, log.next_offset, log.foreign


def stored(
    log: LogState, name: str = "x", largest: int = 50, log_id: str = "log"
) -> list[tuple[bytes, bytes]]:
    """Records of a snapshot."""
    stream = SnapshotStream(log, log_id, largest)
    parts = [(part_key(name, index), part) for index, part in enumerate(stream.parts())]
    return [*parts, (end_key(name), stream.end())]


def usable(
    records: Sequence[tuple[bytes, bytes | None]], start: int = 0, end: int = 1 << 40
) -> list[LogState]:
    shelf = SnapshotShelf()
    for key, value in records:
        shelf.add(key, value)
    return list(shelf.usable("log", start, end))


@given(st.binary(max_size=400), st.integers(1, 100))
def test_a_command_is_split_and_joined(data: bytes, room: int) -> None:
    command = Change("s", 1, (NewNode("/a", data),))
    log, results = (
        played(list(split_command(b"w" * 16, 1, encode_command(OpenSession("s")), 99))),
        [],
    )
    for part in split_command(b"w" * 16, 2, encode_command(command), PART_OVERHEAD + room):
        assert len(part) <= PART_OVERHEAD + room
        log, applied = apply_record(log, log.next_offset, part)
        results.append(applied)
    assert [one.command for one in results if one is not None] == [command]
    assert results[-1] is not None
    assert not log.unfinished


@settings(max_examples=examples(300))
@given(logs(), st.data())
def test_a_reader_that_begins_at_a_snapshot_agrees_with_one_that_read_everything(
    records: list[bytes], draw: st.DataObject
) -> None:
    at = draw.draw(st.integers(0, len(records)))
    (restored,) = usable(stored(played(records[:at])))
    assert content(restored) == content(played(records[:at]))
    assert content(played(records, restored)) == content(played(records))


@given(logs())
def test_repeated_delivery_changes_nothing(records: list[bytes]) -> None:
    log = played(records)
    for offset, record in enumerate(records):
        assert apply_record(log, offset, record) == (log, None)


def test_an_unfinished_command_is_abandoned_after_a_gap() -> None:
    first, second, *_ = split_command(b"w" * 16, 1, encode_command(Heartbeat("s" * 90, 1)), LARGEST)
    log, _ = apply_record(LogState(), 0, first)
    inside, _ = apply_record(log, LONGEST_GAP, second)
    assert len(inside.unfinished[b"w" * 16].payloads) == 2
    beyond, _ = apply_record(log, LONGEST_GAP + 1, second)
    assert not beyond.unfinished


def test_an_unknown_command_is_not_skipped() -> None:
    (part,) = split_command(b"w" * 16, 1, b'["later",1]\n', 1000)
    with pytest.raises(NewerFormat):
        apply_record(LogState(), 0, part)


@given(st.binary(max_size=80))
def test_any_other_record_is_counted_or_refused(record: bytes) -> None:
    try:
        log, applied = apply_record(LogState(), 0, record)
    except NewerFormat:
        return
    assert (log.foreign, log.next_offset, applied) == (1, 1, None)


@given(logs(), st.data())
def test_a_damaged_or_incomplete_snapshot_is_not_used(records: list[bytes], draw: st.DataObject) -> None:
    whole = stored(played(records))
    index = draw.draw(st.integers(0, len(whole) - 2))
    key, part = whole[index]
    at = draw.draw(st.integers(0, len(part) - 1))
    changed = bytes([*part[:at], part[at] ^ 1, *part[at + 1 :]])
    assert not usable([*whole[:index], (key, changed), *whole[index + 1 :]])
    assert not usable([*whole[:index], *whole[index + 1 :]])
    assert not usable(whole[:-1])
    assert not usable([*whole, (key, None)])


def test_only_snapshots_that_the_log_continues_are_used() -> None:
    whole = stored(LogState(next_offset=50))
    assert [len(usable(whole, *bounds)) for bounds in ((50, 50), (0, 90), (51, 90), (0, 49))] == [1, 1, 0, 0]
    assert not list(SnapshotShelf().usable("log", 0, 9))


def test_two_snapshots_are_kept_and_unfinished_older_ones_deleted() -> None:
    shelf = SnapshotShelf()
    old, torn, first, second = (stored(LogState(next_offset=at), name, 20) for at, name in OFFSETS)
    for key, value in [*old, *torn[:-1], *first, *second]:
        shelf.add(key, value)
    before, keys = shelf.superseded("log")
    assert before == 30
    assert set(keys) == {key for key, _ in [*old, *torn[:-1]]}
    for key in keys:
        shelf.add(key, None)
    assert shelf.superseded("log") == (30, [])
    assert [one.next_offset for one in shelf.usable("log", 30, 99)] == [40, 30]
    assert shelf.superseded("another") == (0, [])


OFFSETS = ((10, "old"), (20, "torn"), (30, "first"), (40, "second"))


def test_snapshots_of_a_former_log_do_not_displace_those_of_a_new_one() -> None:
    shelf = SnapshotShelf()
    former = [
        stored(LogState(next_offset=at), name, log_id="former") for at, name in ((900, "a"), (950, "b"))
    ]
    new = [stored(LogState(next_offset=at), name) for at, name in OFFSETS[2:]]
    for key, value in [record for one in (*former, *new) for record in one]:
        shelf.add(key, value)
    assert [one.next_offset for one in shelf.usable("log", 0, 99)] == [40, 30]
    before, keys = shelf.superseded("log")
    assert before == 30
    assert set(keys) == {key for one in former for key, _ in one}


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_foreign_records_among_snapshots_are_ignored(key: bytes, value: bytes) -> None:
    whole = stored(LogState(next_offset=5))
    assert len(usable([(key, value), *whole, (b"y/end", value), (b"y/1", None)])) == 1


delays = st.floats(0.0, 20.0)


@given(st.lists(st.tuples(delays, delays), max_size=12), delays, st.floats(1.0, 10.0))
def test_an_observer_ends_no_session_before_its_owner_has_lost_it(
    steps: list[tuple[float, float]], wait: float, timeout: float
) -> None:
    contact, observer, now = SessionContact(timeout, 0.0), SilenceObserver(99.0), 0.0
    record = SessionRecord(timeout_ms=round(timeout * 1000))
    observer.observe({"s": record}, "me", now)
    for pause, transit in steps:
        sent = now + pause
        number = contact.send(sent)
        now = sent + transit
        if any(one.session == "s" for one in observer.silent(now)):
            break
        record = SessionRecord(number, timeout_ms=record.timeout_ms)
        observer.observe({"s": record}, "me", now)
        contact.read_back(number, now)
    now += wait
    ended = observer.silent(now)
    if ended:
        assert ended == [EndSession("s", record.heartbeat)]
        assert contact.state(now + 0.001) is SessionState.LOST


def test_heartbeats_are_sent_three_times_in_a_timeout_and_never_pile_up() -> None:
    contact = SessionContact(6.0, 100.0)
    assert contact.next_heartbeat(101.9) is None
    assert contact.next_heartbeat(102.0) == 1
    assert contact.next_heartbeat(104.0) is None
    assert contact.state(103.9) is SessionState.CONNECTED
    assert contact.state(104.0) is SessionState.SUSPENDED
    contact.read_back(1, 104.5)
    assert (contact.answered_at, contact.answer_seconds) == (102.0, 2.5)
    assert contact.next_heartbeat(104.5) == 2
    assert contact.state(108.0) is SessionState.LOST
    assert contact.waited_seconds(108.0) == 3.5
