"""Test definitions: their documents, their store in ZooKeeper, and its cache."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from mirror.coordination.stores.definition_document import from_document, to_document
from mirror.coordination.stores.definitions import (
    DefinitionCache,
    DefinitionStore,
    StoredDatastream,
)
from mirror.errors import AlreadyExists, DamagedState, InvalidRequest, NotFound, VersionConflict
from mirror.model.datastreams.datastream import (
    Datastream,
    DatastreamStatus,
    Halt,
    LatencyObjective,
    PartitionPause,
    StartPosition,
)
from mirror.model.identifiers import DatastreamName
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicNaming, TopicSelection
from tests.builders import a_datastream
from tests.fakes.node_store import FakeZooKeeper, Operation
from tests.patience import PATIENCE_SECONDS, wait_until

PLAIN = a_datastream()
FULL = Datastream(
    name=DatastreamName("süß 100%"),
    source=PLAIN.source,
    selection=TopicSelection("^(a|b)$", "b", internal=True),
    destination=PLAIN.destination,
    naming=TopicNaming("copy.*"),
    status=DatastreamStatus.PAUSED,
    start=StartPosition.LATEST,
    limits=TaskLimits(2, 8, 100),
    objective=LatencyObjective(500, 99.9),
    metadata={"owner": "me", "system.taskPrefix": "shared", "any.other": "ключ"},
    pauses={"a": PartitionPause(frozenset({1, 2}), "why", 7, "me", 9), "b": PartitionPause(None, "", 7)},
    halt=Halt("tests", 7, "me", 10),
)

SINCE = replace(PLAIN, start=StartPosition.TIMESTAMP, start_ms=1_795_248_000_500)


@pytest.mark.parametrize("datastream", [PLAIN, FULL, SINCE])
def test_a_definition_survives(datastream: Datastream) -> None:
    store = DefinitionStore(FakeZooKeeper().session())
    store.create(datastream)
    assert store.get(datastream.name) == StoredDatastream(datastream, 0)
    assert from_document(to_document(datastream)) == datastream


def test_pauses_of_versions_that_knew_of_no_end_are_read_and_those_versions_read_ours() -> None:
    document = to_document(FULL)
    former = {"partitions": "1-2", "reason": "why", "since_ms": 7, "requested_by": "me"}
    halt = {"reason": "tests", "since_ms": 7, "requested_by": "me"}
    read = from_document({**document, "pauses": {"a": former}, "halt": halt})
    assert read.pauses == {"a": PartitionPause(frozenset({1, 2}), "why", 7, "me")}
    assert read.halt == Halt("tests", 7, "me")
    assert former.items() <= document["pauses"]["a"].items()
    assert halt.items() <= document["halt"].items()


def test_only_what_begins_at_a_moment_is_written_otherwise_than_before() -> None:
    assert "start_ms" not in to_document(PLAIN)
    assert to_document(SINCE)["start"] == "timestamp", "older versions must not mistake it for another"
    with pytest.raises(InvalidRequest, match="start_ms"):
        from_document({**to_document(PLAIN), "start_ms": 5})


def test_names_come_sorted_by_name_not_by_node() -> None:
    store = DefinitionStore(FakeZooKeeper().session())
    for name in ("b", "a b", "a", "ä", "%"):
        store.create(a_datastream(name))
    assert store.names() == ("%", "a", "a b", "b", "ä")
    assert [one.datastream.name for one in store.all().readable] == list(store.names())


def test_a_name_is_taken_once() -> None:
    store = DefinitionStore(FakeZooKeeper().session())
    store.create(PLAIN)
    with pytest.raises(AlreadyExists, match="orders"):
        store.create(a_datastream(topics="other"))
    assert store.get(PLAIN.name).datastream == PLAIN


def test_what_is_missing_is_named() -> None:
    with pytest.raises(NotFound, match="datastream nobody"):
        DefinitionStore(FakeZooKeeper().session()).get(DatastreamName("nobody"))


def test_a_change_on_an_outdated_reading_is_refused() -> None:
    store = DefinitionStore(FakeZooKeeper().session())
    store.create(PLAIN)
    outdated = store.get(PLAIN.name)
    store.replace(outdated, a_datastream(status=DatastreamStatus.PAUSED))
    with pytest.raises(VersionConflict):
        store.replace(outdated, a_datastream(status=DatastreamStatus.STOPPING))
    assert store.get(PLAIN.name).datastream.status is DatastreamStatus.PAUSED


def test_several_are_replaced_as_one_or_not_at_all() -> None:
    store = DefinitionStore(FakeZooKeeper().session())
    stored = [store.create(a_datastream(name)) for name in ("a", "b")]
    stopping = [(one, replace(one.datastream, status=DatastreamStatus.STOPPING)) for one in stored]
    store.replace(stored[1], replace(stored[1].datastream, status=DatastreamStatus.PAUSED))
    with pytest.raises(VersionConflict):
        store.replace_together(stopping)
    assert store.get(DatastreamName("a")) == stored[0]
    newest = store.get(DatastreamName("b"))
    written = store.replace_together([stopping[0], (newest, stopping[1][1])])
    assert written == tuple(one for one in store.all().readable)
    assert {one.datastream.status for one in written} == {DatastreamStatus.STOPPING}


def test_what_does_not_fit_into_one_transaction_is_not_begun() -> None:
    store = DefinitionStore(FakeZooKeeper().session())
    note = {"owner": "tests", "note": "n" * 99_000}
    stored = [store.create(replace(a_datastream(f"d{number}"), metadata=note)) for number in range(10)]
    with pytest.raises(InvalidRequest, match="10 definitions"):
        store.replace_together([(one, one.datastream) for one in stored])
    assert list(store.all().readable) == stored
    store.replace_together([(one, one.datastream) for one in stored[:9]])


def test_one_that_is_deleted_while_all_are_read_is_left_out() -> None:
    server = FakeZooKeeper()
    store, other = DefinitionStore(server.session()), server.session()
    reader = server.session()
    for name in ("a", "b", "c"):
        store.create(a_datastream(name))
    reader.script = lambda operation: other.delete("/datastreams/b") if operation.number == 1 else None
    assert [one.datastream.name for one in DefinitionStore(reader).all().readable] == ["a", "c"]


def test_the_watch_tells_of_every_addition_change_and_removal() -> None:
    server = FakeZooKeeper()
    writer, rings = DefinitionStore(server.session()), [0]

    def ring() -> None:
        rings[0] += 1

    changes: list[Callable[[], object]] = [
        lambda: writer.create(PLAIN),
        lambda: writer.replace(writer.get(PLAIN.name), a_datastream(status=DatastreamStatus.PAUSED)),
        lambda: writer.remove(PLAIN.name),
    ]
    reader = DefinitionCache(DefinitionStore(server.session()), ring)
    for change in changes:
        reader.all()
        before = rings[0]
        change()
        assert rings[0] > before


class Queueing:
    """A lock that counts the attempts to acquire it."""

    def __init__(self) -> None:
        self.came = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.came += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_calls_that_wait_for_a_listing_share_the_next_one_and_miss_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = FakeZooKeeper()
    writer, session = DefinitionStore(server.session()), server.session()
    cache, lock = DefinitionCache(DefinitionStore(session), lambda: None), Queueing()
    monkeypatch.setattr(cache, "_lock", lock)
    found, listings = list[int](), list[Operation]()
    waiting = [threading.Thread(target=lambda: found.append(len(cache.newest().readable))) for _ in range(5)]

    def come_meanwhile(operation: Operation) -> None:
        if operation.name != "children":
            return
        listings.append(operation)
        if len(listings) == 2:
            writer.create(PLAIN)  # after the first listing, before that of the waiting calls
        if len(listings) == 1:
            for thread in waiting:
                thread.start()
            wait_until(lambda: lock.came == 1 + len(waiting), "all threads wait for the first listing")

    session.script = come_meanwhile
    cache.newest()
    for thread in waiting:
        thread.join(PATIENCE_SECONDS)
    assert found == [1] * len(waiting)
    assert len(listings) == 3, "the watch of the creation causes one more"


def test_of_a_thousand_definitions_each_look_costs_few_answers() -> None:
    server = FakeZooKeeper()
    writer, session = DefinitionStore(server.session()), server.session()
    for number in range(1_000):
        writer.create(a_datastream(f"d-{number:04}"))
    cache = DefinitionCache(DefinitionStore(session), lambda: None)
    assert len(cache.newest().readable) == 1_000
    assert session.round_trips <= 3
    names = [DatastreamName(f"d-{number:04}") for number in range(0, 1_000, 3)]
    for name in names:
        stored = writer.get(name)
        writer.replace(stored, replace(stored.datastream, status=DatastreamStatus.PAUSED))
    writer.remove(DatastreamName("d-0001"))
    writer.create(a_datastream("new"))
    before = session.round_trips
    found = {one.datastream.name: one for one in cache.newest().readable}
    assert session.round_trips - before <= 3
    assert {name for name, one in found.items() if one.datastream.status is DatastreamStatus.PAUSED} == set(
        names
    )
    assert found.keys() == {one.datastream.name for one in writer.all().readable}


@pytest.mark.parametrize(
    "data",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"name":"x"}',
        b'{"name":"x","source":"a","topics":{"include":"("},"destination":"b","naming":"*","status":"READY",'
        b'"start":"earliest","limits":{},"metadata":{}}',
        b'{"name":"x","source":"a","topics":{"include":"t"},"destination":"b","naming":"*","status":"NEW",'
        b'"start":"earliest","limits":{},"metadata":{}}',
    ],
)
def test_a_damaged_definition_is_refused_by_the_name_of_its_node(data: bytes) -> None:
    session = FakeZooKeeper().session()
    session.create("/datastreams/x", data)
    with pytest.raises(DamagedState, match="datastream x is damaged"):
        DefinitionStore(session).get(DatastreamName("x"))


def test_a_definition_that_does_not_fit_into_a_znode_is_refused() -> None:
    store = DefinitionStore(FakeZooKeeper().session())
    with pytest.raises(InvalidRequest, match="characters"):
        store.create(a_datastream(topics="x" * 2**20))
    assert store.names() == ()
