"""The fence of a switch-over, the detection of writers behind it, and the copies of its state."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

import pytest

from mirror.client.cluster import Cluster
from mirror.errors import CorruptData, NewerFormat, NotAuthorized, Refused, TimedOut
from mirror.jobs.dr.coverage import PartitionSpan, differing_topics, left_out, unaccounted, uncopied
from mirror.jobs.dr.fence import allow, denials_at, deny, refuse_own, require_own_rights
from mirror.jobs.dr.log import StateCopy
from mirror.jobs.dr.operation import Denial, PairState, Step, Switchover, read_state, write_state
from mirror.jobs.dr.stillness import log_ends, stray_batch, watch_ends
from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code
from tests.builders import SOURCE
from tests.fakes.broker import batches
from tests.fakes.broker.faults import Code as CodeFault
from tests.fakes.broker.faults import Drop, Edit
from tests.fakes.broker.mirrored import MirroredFakes

T = TypeVar("T")
CREATE_ACLS, DESCRIBE_ACLS, METADATA = 30, 29, 3
LIST_TRANSACTIONS = 66
APP = Denial(topic="t", principal="User:app")
PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]


@pytest.fixture
def fenced(fakes: MirroredFakes) -> MirroredFakes:
    fakes.make_topic("t", 2)
    fakes.source.has_authorizer = True
    fakes.write("t", 0, 5)
    return fakes


def source_of(fakes: MirroredFakes) -> Cluster:
    return fakes.context.cluster(SOURCE)


def run(fakes: MirroredFakes, work: Coroutine[Any, Any, T]) -> T:
    return fakes.context.run(work)


def test_denials_are_created_listed_and_deleted_twice(fenced: MirroredFakes) -> None:
    source, both = source_of(fenced), [APP, Denial(topic="t", principal="User:büro")]
    for _ in range(2):
        run(fenced, deny(source, both))
    assert run(fenced, denials_at(source)) == set(both)
    assert fenced.source.is_denied("User:app", 4, "t")
    for _ in range(2):
        run(fenced, allow(source, [APP]))
    assert run(fenced, denials_at(source)) == {both[1]}


def test_a_broker_that_does_not_apply_a_denial_yet_is_waited_for(fenced: MirroredFakes) -> None:
    fenced.source.faults.plant(DESCRIBE_ACLS, Edit(lambda answer: answer.resources.clear()), broker=2)
    with pytest.raises(TimedOut, match="broker 2"):
        run(fenced, deny(source_of(fenced), [APP]))
    run(fenced, deny(source_of(fenced), [APP]))


def test_clusters_without_authorizer_and_rights_are_refused(fenced: MirroredFakes) -> None:
    fenced.source.faults.plant(CREATE_ACLS, CodeFault(Code.CLUSTER_AUTHORIZATION_FAILED))
    with pytest.raises(NotAuthorized, match="Alter"):
        run(fenced, deny(source_of(fenced), [APP]))
    assert not fenced.source.acls
    fenced.source.has_authorizer = False
    with pytest.raises(Refused, match="authorizer"):
        run(fenced, deny(source_of(fenced), [APP]))


def test_a_fence_that_excludes_ourselves_is_refused(fenced: MirroredFakes) -> None:
    run(fenced, require_own_rights(source_of(fenced), ["t"]))
    fenced.source.faults.plant(METADATA, CodeFault(Code.TOPIC_AUTHORIZATION_FAILED, "t"), times=None)
    with pytest.raises(Refused, match="t of source"):
        run(fenced, require_own_rights(source_of(fenced), ["t"]))


@pytest.mark.parametrize("principal", ["User:headrace", "User:*"])
def test_ourselves_and_everyone_are_never_fenced(principal: str) -> None:
    refuse_own(["User:app"], ["User:headrace"])
    with pytest.raises(Refused):
        refuse_own(["User:app", principal], ["User:headrace"])


def test_ends_that_stand_still_are_returned(fenced: MirroredFakes) -> None:
    ends = run(fenced, watch_ends(source_of(fenced), PLACES, 10, 2))
    assert ends == {PLACES[0]: 5, PLACES[1]: 0}


def at(fakes: MirroredFakes, seconds: float, action: Any) -> None:
    fakes.source.later(seconds, action)


def test_a_writer_behind_the_fence_is_named(fenced: MirroredFakes) -> None:
    batch = batches.build(fenced.records(5, 3), producer=(4711, 0, 0))
    at(fenced, 6.0, partial(fenced.source.append, "t", batch, 1))
    with pytest.raises(Refused, match=r"producer id 4711 .*t-1 at offset 0"):
        run(fenced, watch_ends(source_of(fenced), PLACES, 10, 2))


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_transactional_writer_behind_the_fence_is_named(fenced: MirroredFakes, is_listed: bool) -> None:
    coordinator = fenced.source.coordinator
    producer = coordinator.init("payments-1", 60_000, (-1, -1)).producer
    batch = batches.build(fenced.records(5, 3), producer=(producer, 3, 0), transactional=True)
    at(fenced, 6.0, partial(fenced.source.append, "t", batch, 1))
    if not is_listed:
        fenced.source.faults.plant(LIST_TRANSACTIONS, Drop(), times=None)
    named = ", transactional id 'payments-1'" if is_listed else ""
    with pytest.raises(Refused, match=rf"producer id {producer} \(epoch 3{named}\) .*t-1 at offset 0"):
        run(fenced, watch_ends(source_of(fenced), PLACES, 30, 2))


def test_a_request_in_progress_at_the_fence_starts_the_time_again(fenced: MirroredFakes) -> None:
    begun = fenced.clock.monotonic()
    at(fenced, 0.5, partial(fenced.write, "t", 5, 1))
    ends = run(fenced, watch_ends(source_of(fenced), PLACES, 10, 2))
    assert ends[PLACES[0]] == 6
    assert fenced.clock.monotonic() - begun >= 10.5


def test_markers_of_transactions_are_no_writes(fenced: MirroredFakes) -> None:
    end = fenced.source.write_in_transaction("t", fenced.records(5, 2))
    at(fenced, 5.0, partial(end, commit=False))
    ends = run(fenced, watch_ends(source_of(fenced), PLACES, 10, 2))
    assert ends[PLACES[0]] == 8


def test_records_of_new_partitions_and_topics_are_stray(fenced: MirroredFakes) -> None:
    source = source_of(fenced)
    before = run(fenced, log_ends(source, PLACES[:1]))
    fenced.write("t", 5, 1, number=1)
    found = run(fenced, stray_batch(source, before, run(fenced, log_ends(source, PLACES))))
    assert found is not None
    assert (found.place, found.producer) == (PLACES[1], -1)


def state(version: int, **fields: Any) -> PairState:
    return PairState(name="p", version=version, active="east", datastreams={"a": "a"}, **fields)


def test_the_state_is_stored_at_a_cluster(fakes: MirroredFakes) -> None:
    copy, other = (StateCopy(fakes.context, ClusterRef("destination"), name) for name in ("p", "p/ö"))
    assert run(fakes, copy.read()) is None
    fence = (Denial(topic="t", principal="User:a"),)
    operation = Switchover(
        identity="i",
        origin="east",
        target="west",
        begun_ms=3,
        step=Step.DRAINED,
        fence=fence,
        ends={"t": {0: 7}},
    )
    for version in (1, 2):
        run(fakes, copy.write(state(version, operation=operation)))
    run(fakes, other.write(state(9)))
    again = StateCopy(fakes.context, ClusterRef("destination"), "p")
    assert run(fakes, again.read()) == run(fakes, copy.read()) == state(2, operation=operation)


def test_unreadable_and_newer_states_are_refused() -> None:
    text = write_state(state(1))
    assert read_state(text) == state(1)
    assert read_state(text.replace(b'"format":2', b'"format":1')).with_(format=2) == state(1).with_(format=2)
    for damaged in (b"", b"[]", b"{}", b"\xff", b'{"format": null}', text.replace(b'"active"', b'"b"')):
        with pytest.raises(CorruptData):
            read_state(damaged)
    with pytest.raises(NewerFormat):
        read_state(text.replace(b'"format":2', b'"format":3'))


def progress(start: int, following: int, kind: OffsetClass = OffsetClass.MIRRORED) -> LaneProgress:
    ledger = Ledger(start)
    ledger.next = following
    ledger.counts[kind] = following - start
    return LaneProgress(ledger, OffsetMap())


def test_a_partition_is_copied_when_its_checkpoint_is_at_the_end() -> None:
    one, two, three = (TopicPartition("t", number) for number in range(3))
    spans = {one: PartitionSpan(3, 10), two: PartitionSpan(4, 4), three: PartitionSpan(2, 9)}
    lanes = {one: progress(3, 9)}
    assert [str(missing) for missing in uncopied(spans, lanes)] == ["t-2 (7)", "t-0 (1)"]
    assert uncopied(spans, {one: progress(0, 10), three: progress(5, 12)}) == []


def test_topics_that_differ_are_named() -> None:
    here, there = {"a": 1, "b": 2, "c": 3, "d": 4}, {"a": 1, "c": 2, "d": 5, "e": 1}
    found = differing_topics("east", here, "west", there)
    assert [sentence.split()[0] for sentence in found] == ["b", "c", "d"]
    assert differing_topics("east", {}, "west", there) == []


def test_offsets_without_a_class_are_found() -> None:
    place = TopicPartition("t", 0)
    good, bad = progress(0, 5, OffsetClass.LOST), progress(0, 5)
    bad.ledger.next = 6
    assert unaccounted({place: good}) == []
    assert left_out({place: good}) == {"lost": 5}
    assert unaccounted({place: bad}) == [place]
