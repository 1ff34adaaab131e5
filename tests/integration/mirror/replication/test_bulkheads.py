"""Failures of a lane, record, transform, stored record or cluster do not affect other lanes of the engine."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from zlib import crc32

import pytest

from mirror.client.access import ClusterAccess, endpoints
from mirror.lane.ledger import OffsetClass
from mirror.model.datastreams.lanes import LaneSpec
from mirror.model.datastreams.policy import CopyPath, CopyPolicy, OnRejection
from mirror.model.identifiers import ClusterRef
from mirror.protocol.batches.batch import BatchHeader
from mirror.protocol.batches.records import read_batch
from mirror.replication.progress_topic import PARTITIONS, SETTINGS
from tests.engines import EngineUnderTest, look, specs, write
from tests.kafka_data import Record, delete_topic, make_topic

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW = int(time.time() * 1000)
NewEngine = Callable[..., EngineUnderTest]
DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
"""JSON nested deeper than the decoder's limit."""


def records(count: int, first: int = 0, partition: int = 0) -> list[Record]:
    return [
        Record(partition, b"k", b"value %d" % number, (), NOW + number)
        for number in range(first, first + count)
    ]


def values(engine: EngineUnderTest, topic: str, partition: int = 0) -> list[bytes | None]:
    return [one.value for one in look(engine.destination, topic, partition)]


def make_pair(engine: EngineUnderTest, topic: str, partitions: int = 1) -> None:
    make_topic(engine.source, topic, partitions)
    make_topic(engine.destination, topic, partitions)


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """Yield an address that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def with_cluster(engine: EngineUnderTest, name: str, address: str) -> EngineUnderTest:
    """Return a similar engine with one more cluster."""
    access = {name: ClusterAccess(endpoints(address))}
    return EngineUnderTest(engine.source, engine.destination, access=access)


@pytest.mark.parametrize("policy", list(OnRejection))
def test_a_record_that_a_transform_cannot_treat_concerns_its_lane_only(
    engine: EngineUnderTest, policy: OnRejection
) -> None:
    bad, good = f"bulk-transform-{policy}", f"bulk-plain-{policy}"
    for topic in (bad, good):
        make_pair(engine, topic)
    write(engine.source, bad, [*records(5), Record(0, b"k", DEEP, (), NOW), *records(5, 5)], per_batch=11)
    write(engine.source, good, records(20))
    masking = CopyPolicy(transforms=("mask-field:a.b",), on_rejection=policy)
    engine.start(bad, policy=masking)
    engine.start(good)
    engine.run_to(good, [20])
    if policy is OnRejection.PAUSE:
        engine.run_until(engine.paused, "the lane pauses")
        engine.run_to(bad, [5])
        (pause,) = engine.paused()
        assert (pause.key.partition.topic, engine.lane(bad).checkpoint) == (bad, 5)
        for word in ("mask-field:a.b", "offset 5", "RecursionError"):
            assert word in pause.reason
        return
    engine.run_to(bad, [11])
    assert values(engine, bad) == [record.value for record in records(10)]
    offset_class = OffsetClass.FILTERED if policy is OnRejection.SKIP else OffsetClass.DEAD_LETTERED
    assert engine.lane(bad).progress.ledger.total(offset_class) == 1
    if policy is OnRejection.DEAD_LETTER:
        (letter,) = look(engine.destination, f"{bad}.headrace-dead-letters")
        assert letter.value == DEEP
        assert b"RecursionError" in (dict(letter.headers)["headrace-reason"] or b"")


@pytest.mark.parametrize("policy", list(OnRejection))
def test_a_batch_that_opens_into_too_much_concerns_its_lane_only(
    engine: EngineUnderTest, policy: OnRejection
) -> None:
    topic, good, many = f"bulk-bomb-{policy}", f"bulk-small-{policy}", 30_000
    for name in (topic, good):
        make_pair(engine, name)
        write(engine.source, name, records(5))
    settings = {"compression_type": "gzip", "batch_num_messages": many, "batch_size": 10_000_000}
    write(engine.source, topic, [Record(0, None, b"", (), NOW)] * many, per_batch=many, **settings)
    write(engine.source, topic, records(5, 5))
    one = EngineUnderTest(engine.source, engine.destination, options={"opened_batch_records": 20_000})
    opening = CopyPolicy(path=CopyPath.RECORD, on_rejection=policy)
    one.start(topic, policy=opening)
    one.start(good, policy=opening)
    one.run_to(good, [5])
    if policy is OnRejection.PAUSE:
        one.run_until(one.paused, "the lane pauses")
        one.run_to(topic, [5])
        assert (one.lane(topic).checkpoint, one.paused()[0].key.partition.topic) == (5, topic)
        reason = one.paused()[0].reason
        assert str(many) in reason
        assert "opened_batch_records" in reason
    else:
        one.run_to(topic, [many + 10])
        assert values(one, topic) == [record.value for record in records(10)]
        offset_class = OffsetClass.FILTERED if policy is OnRejection.SKIP else OffsetClass.DEAD_LETTERED
        assert one.lane(topic).progress.ledger.total(offset_class) == many
    if policy is OnRejection.DEAD_LETTER:
        (letter,) = look(engine.destination, f"{topic}.headrace-dead-letters")
        whole = memoryview(letter.value or b"")
        assert len(read_batch(whole, BatchHeader(whole))) == many
    one.stop()


def test_a_transform_that_is_unknown_pauses_its_own_lanes(engine: EngineUnderTest) -> None:
    for topic in ("bulk-unknown", "bulk-known"):
        make_pair(engine, topic, 2)
        for number in range(2):
            write(engine.source, topic, records(10, 0, number))
    engine.engine.start_lanes(
        [*specs("bulk-unknown", 2, policy=CopyPolicy(transforms=("no-such",))), *specs("bulk-known", 2)]
    )
    engine.run_to("bulk-known", [10, 10])
    assert {event.key.partition.topic for event in engine.paused()} == {"bulk-unknown"}
    assert "no-such" in engine.paused()[0].reason


STORED = {
    "damaged": b'{"next_offset": 5, "ledger": {"sta',
    "newer": b'{"format": 9, "next_offset": 5}',
    "impossible": b'{"next_offset": 99999999999999999999999}',
    "negative": b'{"next_offset": -7}',
    "no-object": b"[1]",
    "deep": b"[" * 100_000,
    "owner": json.dumps(
        {"next_offset": 0, "ledger": {"start": 0, "counts": {}}, "map": {"first": 0, "sealed": 0, "runs": []}}
        | {"source_id": "", "epoch": -1, "target_id": "", "clean": True, "owner": "x", "engine": 7}
    ).encode(),
}


def test_a_stored_record_that_cannot_be_read_pauses_its_own_lane(engine: EngineUnderTest) -> None:
    progress = "bulk-progress"
    make_topic(
        engine.destination, progress, PARTITIONS, **{k.replace(".", "_"): v for k, v in SETTINGS.items()}
    )
    topics = [f"bulk-stored-{name}" for name in (*STORED, "good")]
    for topic in topics:
        make_pair(engine, topic)
        write(engine.source, topic, records(10))

    def store(key: bytes, value: bytes | None) -> None:
        place = crc32(b"/".join(key.split(b"/")[:3])) % PARTITIONS
        write(engine.destination, progress, [Record(place, key, value, (), NOW)])

    for name, value in STORED.items():
        store(f"g-bulk-stored-{name}/bulk-stored-{name}/0".encode(), value)
    for key in (b"nobody", b"\xff\xfe", b"a/b", b"a/b/c", b"a/b/1/map/x", b"////"):
        store(key, b"\xffjunk")
    one = EngineUnderTest(engine.source, engine.destination, progress_topic=progress)
    one.engine.start_lanes([spec for topic in topics for spec in specs(topic)])
    one.run_to("bulk-stored-good", [10])
    one.run_until(lambda: len(one.paused()) >= len(STORED), "the other lanes pause")
    assert {event.key.partition.topic for event in one.paused()} == {f"bulk-stored-{name}" for name in STORED}
    for event in one.paused():
        assert ("newer version" if "newer" in event.key.partition.topic else "progress topic") in event.reason
    for name in STORED:
        store(f"g-bulk-stored-{name}/bulk-stored-{name}/0".encode(), b'{"next_offset": 4}')
    for name in STORED:
        one.run_to(f"bulk-stored-{name}", [10])
        assert values(one, f"bulk-stored-{name}") == [record.value for record in records(6, 4)]
    one.stop()
    assert len(one.stopped()) == len(topics)


@pytest.mark.parametrize("side", ["source", "destination"])
def test_a_cluster_that_does_not_answer_holds_up_no_other_lane(
    engine: EngineUnderTest, silent: str, side: str
) -> None:
    """This holds when lanes start, store progress and stop."""
    topic = f"bulk-silent-{side}"
    make_pair(engine, topic)
    write(engine.source, topic, records(10))
    one = with_cluster(engine, "silent", silent)
    (spec,) = specs(topic)
    away = _at(specs(topic, destination=f"{topic}-away")[0], side)
    one.engine.start_lanes([away, spec])
    one.run_to(topic, [10], topic)
    write(engine.source, topic, records(10, 10))
    one.run_to(topic, [20], topic)
    one.run_until(
        lambda: one.lane(topic, destination=f"{topic}-away").observed.stalled_by,
        "the lane reports why it waits",
    )
    (report,) = [each for each in one.engine.reports() if each.destination_topic == f"{topic}-away"]
    assert silent in report.reason
    assert "cluster silent" in report.reason
    assert ", since 2" in report.reason
    assert [event.reason for event in one.paused() if event.key == away.key] == [report.reason]
    assert {event.key for event in one.paused()} == {away.key}
    one.engine.stop_lanes([away.key, spec.key])
    one.run_until(lambda: len(one.stopped()) == 2, "both lanes stop")
    assert {event.key: event.next_offset for event in one.stopped()} == {away.key: None, spec.key: 20}
    one.crash()


def _at(spec: LaneSpec, side: str) -> LaneSpec:
    silent = ClusterRef("silent")
    return replace(spec, source=silent) if side == "source" else replace(spec, destination=silent)


def test_a_halted_lane_shows_how_far_it_is_behind(engine: EngineUnderTest) -> None:
    topic = "bulk-halted"
    make_pair(engine, topic)
    write(engine.source, topic, records(10))
    engine.start(topic)
    engine.run_to(topic, [10])
    delete_topic(engine.destination, topic)
    write(engine.source, topic, records(5, 10))
    engine.run_until(engine.paused, "the lane halts")
    assert "does not exist" in engine.paused()[0].reason
    write(engine.source, topic, records(5, 15))
    engine.run_until(lambda: engine.engine.reports()[0].lag == 10, "the lag includes new records")
    assert "does not exist" in engine.engine.reports()[0].reason


def test_a_cluster_that_cannot_be_opened_pauses_its_own_lanes(engine: EngineUnderTest) -> None:
    make_pair(engine, "bulk-opened")
    write(engine.source, "bulk-opened", records(10))
    unknown = _at(specs("bulk-unopened")[0], "destination")
    engine.engine.start_lanes([unknown, *specs("bulk-opened")])
    engine.run_to("bulk-opened", [10])
    assert [event.key for event in engine.paused()] == [unknown.key]
    engine.engine.stop_lanes([unknown.key])
    engine.run_until(engine.stopped, "the lane stops")
