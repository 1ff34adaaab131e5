"""No silent loss: truncated, deleted, created anew, missing; halt or note the gap and go on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import pytest
from confluent_kafka import TopicPartition

from mirror.lane.ledger import OffsetClass
from mirror.lane.lifecycle import LaneState
from mirror.model.datastreams.policy import CopyPolicy, OnLoss
from mirror.model.movement.history import NO_HISTORY, Waypoint
from mirror.model.movement.loss import seconds_to_loss
from tests.engines import EngineUnderTest, check_map, look, write
from tests.kafka_data import Record, admin_client, delete_topic, make_topic
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair, NewKafka

pytestmark = pytest.mark.servers

CONTINUE = CopyPolicy(on_loss=OnLoss.CONTINUE)


def numbered(first: int, count: int, text: str = "v") -> list[Record]:
    now = int(time.time() * 1000)
    return [Record(0, None, f"{text}{number}".encode(), (), now) for number in range(first, first + count)]


def values(address: str, topic: str) -> list[bytes | None]:
    return [record.value for record in look(address, topic)]


def texts(first: int, count: int, text: str = "v") -> list[bytes]:
    return [f"{text}{number}".encode() for number in range(first, first + count)]


def truncate(address: str, topic: str, before: int) -> None:
    admin = admin_client(address)
    place = TopicPartition(topic, 0, before)
    admin.delete_records([place])[place].result(PATIENCE_SECONDS)


def delete(address: str, topics: Sequence[str]) -> None:
    admin = admin_client(address)
    for future in admin.delete_topics(list(topics)).values():
        future.result(PATIENCE_SECONDS)
    wait_until(
        lambda: not admin.list_topics(timeout=PATIENCE_SECONDS).topics.keys() & set(topics), "they are gone"
    )


def pair(engine: EngineUnderTest, topic: str) -> None:
    make_topic(engine.source, topic)
    make_topic(engine.destination, topic)


def stop_at(engine: EngineUnderTest, topic: str, offset: int, policy: CopyPolicy) -> EngineUnderTest:
    """Copy up to the offset, stop, and give an engine that will go on."""
    engine.start(topic, policy=policy)
    engine.run_to(topic, [offset])
    engine.stop()
    return EngineUnderTest(engine.source, engine.destination)


def test_truncation_halts_the_lane_and_says_what_is_missing(engine: EngineUnderTest) -> None:
    pair(engine, "loss-halt")
    write(engine.source, "loss-halt", numbered(0, 100))
    second = stop_at(engine, "loss-halt", 100, CopyPolicy())
    write(engine.source, "loss-halt", numbered(100, 100))
    truncate(engine.source, "loss-halt", 150)
    second.start("loss-halt")
    second.run_until(second.paused, "it halts")
    assert "offsets 100 to 149 of loss-halt-0 are gone" in second.paused()[0].reason
    assert second.lane("loss-halt").checkpoint == 100
    second.stop()
    assert values(engine.destination, "loss-halt") == texts(0, 100)


@pytest.mark.deep
def test_truncation_can_be_noted_and_passed(engine: EngineUnderTest) -> None:
    pair(engine, "loss-continue")
    write(engine.source, "loss-continue", numbered(0, 100))
    second = stop_at(engine, "loss-continue", 100, CONTINUE)
    write(engine.source, "loss-continue", numbered(100, 100))
    before = look(engine.source, "loss-continue")
    truncate(engine.source, "loss-continue", 150)
    second.start("loss-continue", policy=CONTINUE)
    second.run_to("loss-continue", [200])
    lane = second.lane("loss-continue")
    assert lane.ledger.total(OffsetClass.LOST) == 50
    assert lane.gaps == ["offsets 100 to 149 of loss-continue-0 are gone from the source"]
    there = look(engine.destination, "loss-continue")
    assert [record.value for record in there] == texts(0, 100) + texts(150, 50)
    check_map(lane, before[:100] + before[150:], there)
    assert lane.offset_map.forward(120).precision == "next"
    second.stop()


def test_a_topic_created_anew_and_longer_is_not_continued_in_its_middle(engine: EngineUnderTest) -> None:
    pair(engine, "loss-anew")
    write(engine.source, "loss-anew", numbered(0, 50))
    second = stop_at(engine, "loss-anew", 50, CopyPolicy())
    delete(engine.source, ["loss-anew"])
    make_topic(engine.source, "loss-anew")
    write(engine.source, "loss-anew", numbered(0, 80, "new"))
    second.start("loss-anew")
    second.run_until(second.paused, "it halts")
    assert "deleted and created again" in second.paused()[0].reason
    assert values(engine.destination, "loss-anew") == texts(0, 50)
    second.stop()


@pytest.mark.deep
def test_a_topic_created_anew_is_copied_from_its_beginning_if_so_chosen(engine: EngineUnderTest) -> None:
    pair(engine, "loss-life")
    write(engine.source, "loss-life", numbered(0, 50))
    engine.start("loss-life", policy=CONTINUE)
    engine.run_to("loss-life", [50])
    delete(engine.source, ["loss-life"])
    make_topic(engine.source, "loss-life")
    write(engine.source, "loss-life", numbered(0, 80, "new"))
    lane = engine.lane("loss-life")
    engine.run_until(lambda: lane.life == 1 and lane.checkpoint == 80, "the new topic is copied")
    there = look(engine.destination, "loss-life")
    assert [record.value for record in there] == texts(0, 50) + texts(0, 80, "new")
    check_map(lane, look(engine.source, "loss-life"), there[50:])
    assert lane.gaps[-1].startswith("topic loss-life on source was deleted and created again")
    assert lane.ledger.start == 0


@pytest.mark.deep
def test_a_deleted_topic_pauses_its_lane_only_and_resumes_with_it(engine: EngineUnderTest) -> None:
    for topic in ("loss-deleted", "loss-neighbour"):
        pair(engine, topic)
        write(engine.source, topic, numbered(0, 10))
        engine.start(topic, policy=CONTINUE)
    engine.run_to("loss-deleted", [10])
    delete(engine.source, ["loss-deleted"])
    engine.run_until(engine.paused, "it pauses")
    assert "loss-deleted does not exist" in engine.paused()[0].reason
    write(engine.source, "loss-neighbour", numbered(10, 10))
    engine.run_to("loss-neighbour", [20])
    make_topic(engine.source, "loss-deleted")
    write(engine.source, "loss-deleted", numbered(0, 5, "new"))
    engine.run_until(engine.resumed, "it resumes")
    engine.run_until(lambda: engine.lane("loss-deleted").checkpoint == 5, "the new topic is copied")
    assert {event.key.partition.topic for event in engine.paused()} == {"loss-deleted"}


@pytest.mark.deep
def test_a_topic_deleted_while_a_former_owners_end_is_looked_at_is_copied_when_it_is_there_again(
    new_kafka: NewKafka, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> None:
    """The comparison lets go of what was to be sent before the pause, and no answer carries the pause out."""
    target, source, topic = new_kafka(), kafka_pair.source.address, "loss-compared"
    former = new_engine(source, target.address)
    pair(former, topic)
    write(source, topic, numbered(0, 10))
    former.start(topic, policy=CONTINUE)
    former.run_to(topic, [10])
    former.run_until(lambda: not former.lane(topic).dirty, "its progress is stored")
    former.crash()
    write(target.address, topic, numbered(0, 1, "another's"))
    later = new_engine(source, target.address)
    later.start(topic, policy=CONTINUE)
    lane = later.lane(topic)
    later.run_until(lambda: lane.reader is not None and lane.is_writable, "it reads")
    target.nodes[0].suspend()
    try:
        write(source, topic, numbered(10, 5))
        later.run_until(lambda: lane.position == 15, "it has something to send")
        delete(source, [topic])
        later.run_until(later.paused, "it is to pause")
        assert not lane.is_drained, "not before that is sent"
    finally:
        target.nodes[0].resume()
    later.run_until(lambda: lane.state is LaneState.PAUSED, "it pauses")
    make_topic(source, topic)
    write(source, topic, numbered(0, 7, "new"))
    later.run_until(lambda: lane.checkpoint == 7, "the new topic is copied")
    assert values(target.address, topic)[-7:] == texts(0, 7, "new")


@pytest.mark.deep
def test_a_destination_created_anew_is_noticed(engine: EngineUnderTest) -> None:
    pair(engine, "loss-target")
    write(engine.source, "loss-target", numbered(0, 50))
    engine.start("loss-target")
    engine.run_to("loss-target", [50])
    delete(engine.destination, ["loss-target"])
    make_topic(engine.destination, "loss-target")
    write(engine.source, "loss-target", numbered(50, 10))
    said = "what was mirrored is gone"
    engine.run_until(lambda: any(said in event.reason for event in engine.paused()), "it halts")
    assert values(engine.destination, "loss-target") == []


@pytest.mark.deep
def test_a_destination_created_anew_can_be_gone_on_with(engine: EngineUnderTest) -> None:
    pair(engine, "loss-target-life")
    write(engine.source, "loss-target-life", numbered(0, 50))
    second = stop_at(engine, "loss-target-life", 50, CONTINUE)
    delete(engine.destination, ["loss-target-life"])
    make_topic(engine.destination, "loss-target-life")
    write(engine.source, "loss-target-life", numbered(50, 10))
    second.start("loss-target-life", policy=CONTINUE)
    second.run_to("loss-target-life", [60])
    assert values(engine.destination, "loss-target-life") == texts(50, 10)
    lane = second.lane("loss-target-life")
    assert "what was mirrored is gone" in lane.gaps[0]
    check_map(
        lane, look(engine.source, "loss-target-life")[50:], look(engine.destination, "loss-target-life")
    )
    second.stop()


@pytest.mark.deep
def test_a_missing_destination_is_waited_for(engine: EngineUnderTest) -> None:
    make_topic(engine.source, "loss-late")
    write(engine.source, "loss-late", numbered(0, 10))
    engine.start("loss-late")
    engine.run_until(engine.paused, "it pauses")
    assert "loss-late does not exist on destination" in engine.paused()[0].reason
    make_topic(engine.destination, "loss-late")
    engine.run_to("loss-late", [10])
    assert engine.resumed()


@pytest.mark.deep
def test_a_pause_outlives_a_restart(engine: EngineUnderTest) -> None:
    make_topic(engine.source, "loss-pause")
    make_topic(engine.destination, "loss-pause")
    write(engine.source, "loss-pause", numbered(0, 10))
    engine.start("loss-pause")
    engine.run_to("loss-pause", [10])
    delete_topic(engine.destination, "loss-pause")
    write(engine.source, "loss-pause", numbered(10, 10))
    lane = engine.lane("loss-pause")
    engine.run_until(
        lambda: lane.pause is not None and lane.pause.attempt >= 2 and not lane.dirty, "it pauses"
    )
    since = lane.pause.since_ms if lane.pause else 0
    engine.stop()
    second = EngineUnderTest(engine.source, engine.destination)
    second.start("loss-pause")
    again = second.lane("loss-pause")
    second.run_until(lambda: again.pause is not None and again.pause.attempt >= 3, "it knows of its pause")
    assert again.pause is not None
    assert again.pause.since_ms == since
    second.stop()


def progress_of(engine: EngineUnderTest, topic: str) -> dict[str, Any]:
    """The lane's stored progress."""
    (found,) = [
        json.loads(one.value or b"")
        for number in range(8)
        for one in look(engine.destination, engine.progress_topic, number)
        if one.key == f"g-{topic}/{topic}/0".encode()
    ][-1:]
    assert isinstance(found, dict)
    return found


def store_progress(engine: EngineUnderTest, topic: str, document: dict[str, Any]) -> None:
    key = f"g-{topic}/{topic}/0".encode()
    record = Record(crc32(key) % 8, key, json.dumps(document).encode(), (), int(time.time() * 1000))
    write(engine.destination, engine.progress_topic, [record])


@pytest.mark.deep
def test_a_source_that_has_another_history_is_noticed_by_its_leader_epochs(
    new_kafka: NewKafka, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> None:
    """As after an unclean election: what was copied in the old epoch is not what the log holds now."""
    source = new_kafka()
    topic, progress = "loss-epochs", f"progress-{time.monotonic_ns()}"
    engine = new_engine(source.address, kafka_pair.destination.address, progress_topic=progress)
    pair(engine, topic)
    write(source.address, topic, numbered(0, 30))
    source.stop()
    source.start()
    write(source.address, topic, numbered(30, 30), client_id="after-the-restart")
    engine.start(topic)
    engine.run_to(topic, [60])
    engine.stop()
    stored = progress_of(engine, topic)
    assert stored["epoch"] > 0, "a restart begins a new epoch"
    for claimed, parts_at in ((0, 30), (stored["epoch"] + 7, 60)):
        store_progress(engine, topic, {**stored, "epoch": claimed})
        halting = new_engine(source.address, engine.destination, progress_topic=progress)
        halting.start(topic)
        halting.run_until(halting.paused, "it halts")
        assert f"parts at offset {parts_at} " in halting.paused()[0].reason
        halting.crash()
    store_progress(engine, topic, {**stored, "epoch": 0})
    going_on = new_engine(source.address, engine.destination, progress_topic=progress)
    going_on.start(topic, policy=CONTINUE)
    going_on.run_until(lambda: len(values(engine.destination, topic)) == 90, "the new history is copied")
    lane = going_on.lane(topic)
    going_on.run_until(lambda: lane.checkpoint == 60, "all of it")
    assert (lane.life, lane.ledger.start, lane.ledger.is_balanced) == (1, 30, True)
    assert "parts at offset 30" in lane.gaps[-1]
    assert lane.offset_map.forward(29).offset == 29
    assert lane.offset_map.forward(30).offset == look(engine.destination, topic)[60].offset
    assert values(engine.destination, topic)[60:] == texts(30, 30)


@pytest.mark.deep
def test_who_would_lose_records_first_goes_first(engine: EngineUnderTest) -> None:
    """Two alike share a quota; the topic of one keeps its records for less than ten minutes more."""
    made_ms = int(time.time() * 1000) - 100_000
    for topic, settings in (("hurried", {"retention_ms": "600000"}), ("patient", {})):
        make_topic(engine.source, topic, 1, **settings)
        make_topic(engine.destination, topic)
        records = [Record(0, None, bytes(10_000), (), made_ms) for _ in range(60)]
        write(engine.source, topic, records, per_batch=1)
    for topic in ("hurried", "patient"):
        engine.start(topic, group="losses", policy=CopyPolicy(bytes_per_second=80_000))
    left: dict[str, float | None] = {}

    def is_done() -> bool:
        metrics = engine.engine.metrics()
        now = time.monotonic()
        for one, place in zip(metrics, engine.engine.positions(metrics), strict=True):
            if place is not None:
                waypoint = Waypoint(now, place.checkpoint, place.readable_end, place.end, one.lag_ms)
                found = seconds_to_loss(NO_HISTORY.after(waypoint, None, place.retention), now)
                left[one.topic] = left.get(one.topic) or found
        return engine.lane("hurried").checkpoint == 60

    engine.run_until(is_done, "it has caught up")
    assert engine.lane("patient").checkpoint <= 50, "by fair shares both would be there"
    assert 0 < (left["hurried"] or 0) <= 500, "it was said before"
    assert left["patient"] is None, "it keeps everything"
