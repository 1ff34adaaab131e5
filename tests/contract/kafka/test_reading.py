"""Fetch with its sessions, ListOffsets, and the ends of leader epochs."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from tests.contract.kafka.asking import EARLIEST, EARLIEST_LOCAL, LATEST, BrokerClient
from tests.fakes.broker.batches import build

NOW = int(time.time() * 1000)


def batch(count: int = 2, when: int = NOW) -> bytes:
    return build([(when + number, None, b"%d" % number, []) for number in range(count)])


def filled(broker: BrokerClient, topic: str, batches: int = 3) -> None:
    broker.create_topic(topic)
    for number in range(batches):
        assert broker.produce(topic, batch(when=NOW + 10 * number))[0] == 0


def test_offsets_and_how_much_comes(broker: BrokerClient, topic: str) -> None:
    filled(broker, topic)
    size = len(batch())
    found = {
        offset: (one.error_code, len(bytes(one.records or b"")), one.high_watermark)
        for offset in (0, 1, 4, 6, 7)
        for one in [broker.fetch(topic, offset)]
    }
    assert found == {
        0: (0, 3 * size, 6),
        1: (0, 3 * size, 6),
        4: (0, size, 6),
        6: (0, 0, 6),
        7: (1, 0, -1),
    }
    assert len(bytes(broker.fetch(topic, 0, size=10).records)) == size
    assert len(bytes(broker.fetch(topic, 0, size=size + 5).records)) == size + 5
    assert len(bytes(broker.fetch(topic, 0, most=10).records)) == size


def test_only_the_first_partition_with_records_gets_a_whole_batch_whatever_its_size(
    broker: BrokerClient, topic: str
) -> None:
    one, two = f"{topic}-1", f"{topic}-2"
    filled(broker, one)
    filled(broker, two)
    answer = broker.fetch_whole([(one, 0, 0), (two, 0, 0)], most=10)
    sizes = {t.topic: len(bytes(t.partitions[0].records or b"")) for t in answer.responses}
    assert sizes == {one: len(batch()), two: 0}


def test_topics_and_epochs_that_do_not_fit(broker: BrokerClient, topic: str) -> None:
    filled(broker, topic)
    assert broker.fetch(f"{topic}-no", 0).error_code == 3
    assert broker.fetch(topic, 0, partition=5).error_code == 3
    assert broker.fetch(topic, 0, version=16).error_code == 0
    assert broker.fetch(topic, 0, version=16, topic_id=uuid4()).error_code == 100
    assert broker.fetch(topic, 0, epoch=3).error_code == 75
    assert broker.fetch(topic, 0, epoch=0).error_code == 0
    assert broker.fetch(topic, 0, last_epoch=0).error_code == 0
    assert broker.fetch(topic, 2, last_epoch=9).error_code == 1
    assert broker.fetch(topic, 7, last_epoch=0).diverging_epoch.end_offset == 6


def test_an_incremental_session_names_only_what_has_changed(broker: BrokerClient, topic: str) -> None:
    one, two = f"{topic}-1", f"{topic}-2"
    filled(broker, one)
    filled(broker, two)

    def ask(places: list[tuple[str, int, int]], session: tuple[int, int], **fields: Any) -> Any:
        answer = broker.fetch_whole(places, session=session, **fields)
        named = {t.topic: len(bytes(t.partitions[0].records or b"")) > 0 for t in answer.responses}
        return answer.error_code, answer.session_id, named

    error, session, named = ask([(one, 0, 0), (two, 0, 6)], (0, 0))
    assert (error, session > 0, named) == (0, True, {one: True, two: False})
    steps = [
        ask([(one, 0, 6)], (session, 1)),
        broker.produce(two, batch()) and ask([], (session, 2)),
        ask([(two, 0, 8)], (session, 3)),
        ask([(two, 0, 100)], (session, 4)),
        ask([], (session, 5)),
        ask([], (session, 6), forgotten=[(two, 0)]),
    ]
    assert steps == [
        (0, session, {}),
        (0, session, {two: True}),
        (0, session, {}),
        (0, session, {two: False}),
        (0, session, {two: False}),
        (0, session, {}),
    ]
    assert ask([], (session, 99))[0] == 71
    assert ask([], (session + 100_000, 1))[0] == 70


def test_a_fetch_waits_for_records_as_long_as_it_may(broker: BrokerClient, topic: str) -> None:
    filled(broker, topic, 1)
    before = time.monotonic()
    assert not bytes(broker.fetch(topic, 2, wait_ms=200).records or b"")
    assert time.monotonic() - before > 0.15


def test_offsets_by_time(broker: BrokerClient, topic: str) -> None:
    filled(broker, topic)
    found = {
        what: broker.offset(topic, when)
        for what, when in {
            "the end": LATEST,
            "the beginning": EARLIEST,
            "the first": NOW,
            "within a batch": NOW + 11,
            "between batches": NOW + 5,
            "later than all": NOW + 1000,
        }.items()
    }
    assert found == {
        "the end": (0, 6, -1, 0),
        "the beginning": (0, 0, -1, 0),
        "the first": (0, 0, NOW, 0),
        "within a batch": (0, 3, NOW + 11, 0),
        "between batches": (0, 2, NOW + 10, 0),
        "later than all": (0, -1, -1, -1),
    }
    assert broker.offset(topic, EARLIEST_LOCAL, version=8) == found["the beginning"], (
        "it differs without a remote tier"
    )
    assert broker.offset(topic, EARLIEST_LOCAL, version=7) == (35, -1, -1, -1)
    assert broker.offset(f"{topic}-no", LATEST)[0] == 3
    assert broker.offset(topic, LATEST, epoch=4)[0] == 75


def test_where_an_epoch_ends(broker: BrokerClient, topic: str) -> None:
    filled(broker, topic)

    def ask(epoch: int) -> tuple[int, int, int]:
        kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        partition = kind.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            replica_id=-2, topics=[kind(topic=topic, partitions=[partition])]
        )
        one = broker.ask(request, OffsetForLeaderEpochResponse, 4).topics[0].partitions[0]
        return one.error_code, one.leader_epoch, one.end_offset

    assert ask(0) == (0, 0, 6)
    assert ask(5) == (0, -1, -1)
