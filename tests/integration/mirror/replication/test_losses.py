"""Losses that need a frozen broker or real leader epochs; see also unit/mirror/engine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import pytest

from mirror.lane.lifecycle import LaneState
from mirror.model.datastreams.policy import CopyPolicy, OnLoss
from tests.engines import EngineUnderTest, look, write
from tests.kafka_data import Record, admin_client, make_topic
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair, NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.deep]

CONTINUE = CopyPolicy(on_loss=OnLoss.CONTINUE)


def numbered(first: int, count: int, text: str = "v") -> list[Record]:
    now = int(time.time() * 1000)
    return [Record(0, None, f"{text}{number}".encode(), (), now) for number in range(first, first + count)]


def values(address: str, topic: str) -> list[bytes | None]:
    return [record.value for record in look(address, topic)]


def texts(first: int, count: int, text: str = "v") -> list[bytes]:
    return [f"{text}{number}".encode() for number in range(first, first + count)]


def delete(address: str, topics: Sequence[str]) -> None:
    admin = admin_client(address)
    for future in admin.delete_topics(list(topics)).values():
        future.result(PATIENCE_SECONDS)
    wait_until(
        lambda: not admin.list_topics(timeout=PATIENCE_SECONDS).topics.keys() & set(topics),
        "the topics are deleted",
    )


def pair(engine: EngineUnderTest, topic: str) -> None:
    make_topic(engine.source, topic)
    make_topic(engine.destination, topic)


def test_a_topic_deleted_while_a_former_owners_end_is_looked_at_is_copied_when_it_is_there_again(
    new_kafka: NewKafka, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> None:
    """The comparison drops the outstanding batches before the pause, so no response triggers the pause."""
    target, source, topic = new_kafka(), kafka_pair.source.address, "loss-compared"
    former = new_engine(source, target.address)
    pair(former, topic)
    write(source, topic, numbered(0, 10))
    former.start(topic, policy=CONTINUE)
    former.run_to(topic, [10])
    former.run_until_stored()
    former.crash()
    write(target.address, topic, numbered(0, 1, "another's"))
    later = new_engine(source, target.address)
    later.start(topic, policy=CONTINUE)
    lane = later.lane(topic)
    later.run_until(lambda: lane.reader is not None and lane.is_writable, "the lane reads")
    target.nodes[0].suspend()
    try:
        write(source, topic, numbered(10, 5))
        later.run_until(lambda: lane.read.position == 15, "the lane has records to send")
        delete(source, [topic])
        later.run_until(later.paused, "a pause is reported")
        assert not lane.queue.is_drained, "drained before the batches were sent"
    finally:
        target.nodes[0].resume()
    later.run_until(lambda: lane.state is LaneState.PAUSED, "the lane pauses")
    make_topic(source, topic)
    write(source, topic, numbered(0, 7, "new"))
    later.run_until(lambda: lane.checkpoint == 7, "the new topic is copied")
    assert values(target.address, topic)[-7:] == texts(0, 7, "new")


def progress_of(engine: EngineUnderTest, topic: str) -> dict[str, Any]:
    """Return the lane's stored progress."""
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


def test_a_source_that_has_another_history_is_noticed_by_its_leader_epochs(
    new_kafka: NewKafka, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> None:
    """The records copied in the old epoch differ from the log, like after an unclean election."""
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
    assert stored["epoch"] > 0, "the restart has not changed the leader epoch"
    for claimed, parts_at in ((0, 30), (stored["epoch"] + 7, 60)):
        store_progress(engine, topic, {**stored, "epoch": claimed})
        halting = new_engine(source.address, engine.destination, progress_topic=progress)
        halting.start(topic)
        halting.run_until(halting.paused, "the lane halts")
        assert f"diverges at offset {parts_at} " in halting.paused()[0].reason
        halting.crash()
    store_progress(engine, topic, {**stored, "epoch": 0})
    going_on = new_engine(source.address, engine.destination, progress_topic=progress)
    going_on.start(topic, policy=CONTINUE)
    going_on.run_until(lambda: len(values(engine.destination, topic)) == 90, "the new history is copied")
    lane = going_on.lane(topic)
    going_on.run_until(lambda: lane.checkpoint == 60, "the checkpoint is at the end")
    assert (lane.progress.life, lane.progress.ledger.start, lane.progress.ledger.is_balanced) == (1, 30, True)
    assert "diverges at offset 30" in lane.progress.gaps[-1]
    assert lane.progress.offset_map.forward(29).offset == 29
    assert lane.progress.offset_map.forward(30).offset == look(engine.destination, topic)[60].offset
    assert values(engine.destination, topic)[60:] == texts(30, 30)
