"""Producer ids, transactions of both protocols, and their visibility to readers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

from tests.contract.kafka.asking import CONCURRENT, LATEST, BrokerClient
from tests.fakes.broker.batches import Content, build
from tests.patience import wait_until

NOW = int(time.time() * 1000)
TRANSACTION = 1


@pytest.fixture
def name(broker: BrokerClient, topic: str) -> str:
    """Return a transactional id with a coordinator, and a topic of the same name."""
    broker.create_topic(topic)
    broker.find_coordinator(TRANSACTION, topic)
    return topic


def batch(producer: tuple[int, int], sequence: int, count: int = 2) -> bytes:
    content: list[Content] = [(NOW, None, b"%d" % number, []) for number in range(count)]
    return build(content, producer=(*producer, sequence), transactional=True)


def taken(broker: BrokerClient, name: str) -> tuple[int, int]:
    error, producer, epoch = broker.producer(name)
    assert error == 0
    return producer, epoch


def ends(broker: BrokerClient, topic: str) -> tuple[int, int]:
    """Return (high watermark, last stable offset)."""
    found = broker.fetch(topic, 0)
    return found.high_watermark, found.last_stable_offset


def settled(broker: BrokerClient, topic: str, end: int) -> None:
    """Wait for markers, which brokers write asynchronously."""
    wait_until(lambda: ends(broker, topic) == (end, end), f"{topic} ends at {end}")


def test_epochs_of_a_transactional_id(broker: BrokerClient, name: str) -> None:
    first = broker.producer(name)
    second = broker.producer(name)
    assert (first[0], second[0]) == (0, 0)
    assert second == (0, first[1], first[2] + 1)
    assert broker.producer(name, known=(first[1], first[2] + 1)) == (0, first[1], first[2] + 2)
    assert broker.producer(name, known=(first[1], first[2])) == (90, -1, -1)
    assert broker.producer(name, known=(first[1], first[2]), version=3)[0] == 47
    assert broker.producer(name, timeout_ms=900_001)[0] == 50
    assert broker.producer(None)[0] == 0


def test_commit_and_abort_by_the_old_protocol(broker: BrokerClient, name: str) -> None:
    mine = taken(broker, name)
    assert broker.produce(name, batch(mine, 0), transaction=name)[0] == 120
    assert broker.produce(name, batch(mine, 0), transaction=name, version=7)[0] == 48
    assert broker.add(name, mine, name) == 0
    assert broker.produce(name, batch(mine, 0), transaction=name) == (0, 0)
    assert ends(broker, name) == (2, 0)
    assert broker.end(name, mine, commit=True)[0] == 0
    settled(broker, name, 3)
    assert broker.add(name, mine, name) == 0
    assert broker.produce(name, batch(mine, 2), transaction=name) == (0, 3)
    assert broker.end(name, mine, commit=False)[0] == 0
    settled(broker, name, 6)
    found = broker.fetch(name, 0, committed=True)
    assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions] == [(mine[0], 3)]
    behind = broker.fetch(name, 6, committed=True)
    assert not behind.aborted_transactions
    at_marker = broker.fetch(name, 5, committed=True)
    assert [one.first_offset for one in at_marker.aborted_transactions] == [3]
    assert broker.fetch(name, 0).aborted_transactions is None


def test_ends_that_do_not_fit_the_state(broker: BrokerClient, name: str) -> None:
    mine = taken(broker, name)
    nothing = broker.end(name, mine, commit=True)[0]
    broker.add(name, mine, name)
    broker.produce(name, batch(mine, 0), transaction=name)
    done = [broker.end(name, mine, commit=True)[0]]
    settled(broker, name, 3)
    done += [broker.end(name, mine, commit=commit)[0] for commit in (True, False)]
    wrong = broker.end(name, (mine[0], mine[1] + 3), commit=True)[0]
    stranger = broker.end(name, (mine[0] + 1_000_000, mine[1]), commit=True)[0]
    old = broker.end(name, (mine[0], mine[1] + 3), commit=True, version=1)[0]
    assert (nothing, done, wrong, stranger, old) == (48, [0, 0, 48], 90, 49, 47)


def test_the_new_protocol_gives_every_transaction_an_epoch(broker: BrokerClient, name: str) -> None:
    mine = taken(broker, name)
    assert broker.produce(name, batch(mine, 0), transaction=name, version=12) == (0, 0)
    assert broker.produce(name, batch(mine, 2), transaction=name, version=12) == (0, 2)
    error, producer, epoch = broker.end(name, mine, commit=True, version=5)
    assert (error, producer, epoch) == (0, mine[0], mine[1] + 1)
    settled(broker, name, 5)
    again = (producer, epoch)
    assert broker.produce(name, batch(mine, 4), transaction=name, version=12)[0] == 47
    assert patiently(broker, name, batch(again, 4)) == (45, -1)
    assert patiently(broker, name, batch(again, 0)) == (0, 5)
    assert broker.end(name, again, commit=False, version=5) == (0, producer, epoch + 1)
    settled(broker, name, 8)
    assert broker.end(name, (producer, epoch + 1), commit=True, version=5)[0] == 48
    assert broker.end(name, (producer, epoch + 1), commit=False, version=5) == (0, producer, epoch + 2)


def patiently(broker: BrokerClient, name: str, data: bytes) -> tuple[int, int]:
    """Produce, retrying while the markers of the previous transaction are written."""
    answers: list[tuple[int, int]] = []

    def is_settled() -> bool:
        answers.append(broker.produce(name, data, transaction=name, version=12))
        return answers[-1][0] != CONCURRENT

    wait_until(is_settled, "a response to a produce request", interval_seconds=0.02)
    return answers[-1]


def test_a_second_owner_aborts_what_is_open_and_fences_the_first(broker: BrokerClient, name: str) -> None:
    mine = taken(broker, name)
    broker.add(name, mine, name)
    broker.produce(name, batch(mine, 0), transaction=name)
    assert broker.producer(name, patient=False)[0] == CONCURRENT
    other = taken(broker, name)
    assert other == (mine[0], mine[1] + 2)
    settled(broker, name, 3)
    assert broker.produce(name, batch(mine, 2), transaction=name, version=12)[0] == 47
    assert broker.end(name, mine, commit=True)[0] == 90
    assert broker.add(name, mine, name) == 90
    found = broker.fetch(name, 0, committed=True)
    assert [one.first_offset for one in found.aborted_transactions] == [0]


def test_an_empty_aborted_transaction_fences_batches_that_are_not_transactional(
    broker: BrokerClient, name: str
) -> None:
    mine = taken(broker, name)
    content: list[Content] = [(NOW, None, b"x", [])]
    assert broker.produce(name, build(content, producer=(*mine, 0))) == (0, 0)
    other = taken(broker, name)
    assert broker.produce(name, build(content, producer=(*mine, 1))) == (0, 1)
    assert broker.add(name, other, name) == 0
    assert broker.end(name, other, commit=False)[0] == 0
    settled(broker, name, 3)
    assert broker.produce(name, build(content, producer=(*mine, 2)))[0] == 47
    assert broker.produce(name, build(content, producer=(*other, 0))) == (0, 3)


def test_what_is_told_of_a_transactional_id(broker: BrokerClient, name: str) -> None:
    assert broker.transaction(name)[:2] == (105, "")
    mine = taken(broker, name)
    assert broker.transaction(name) == (0, "Empty", *mine)
    broker.add(name, mine, name)
    broker.produce(name, batch(mine, 0), transaction=name)
    assert broker.transaction(name) == (0, "Ongoing", *mine)
    broker.end(name, mine, commit=True)
    settled(broker, name, 3)
    wait_until(lambda: broker.transaction(name) == (0, "CompleteCommit", *mine), "the commit is complete")
    other = taken(broker, name)
    assert broker.transaction(name) == (0, "Empty", mine[0], mine[1] + 1) == (0, "Empty", *other)
    broker.add(name, other, name)
    broker.produce(name, batch(other, 0), transaction=name)
    broker.end(name, other, commit=False)
    wait_until(lambda: broker.transaction(name) == (0, "CompleteAbort", *other), "the abort is complete")


def test_a_producer_id_has_a_transactional_id(broker: BrokerClient, name: str) -> None:
    producer, _ = taken(broker, name)
    assert broker.transactional_ids(producer) == [name]
    assert broker.transactional_ids(producer + 1_000_000) == []


def test_who_has_the_epoch_is_only_compared_where_no_transaction_is_open(
    broker: BrokerClient, name: str
) -> None:
    """Thus a former owner that requests the id with its old epoch aborts the new owner's transaction."""
    mine = taken(broker, name)
    broker.add(name, mine, name)
    assert broker.producer(name, known=mine, patient=False)[0] == CONCURRENT
    aborted = (mine[0], mine[1] + 1)
    wait_until(
        lambda: broker.transaction(name) == (0, "CompleteAbort", *aborted), "the transaction is aborted"
    )
    assert broker.producer(name, known=mine) == (0, *aborted), "not treated as a repeated request"
    assert broker.producer(name, known=aborted) == (0, mine[0], mine[1] + 2)
    other = taken(broker, name)
    assert broker.producer(name, known=aborted) == (90, -1, -1)
    broker.add(name, other, name)
    assert broker.producer(name, known=mine, patient=False)[0] == CONCURRENT
    stolen = (other[0], other[1] + 1)
    wait_until(
        lambda: broker.transaction(name) == (0, "CompleteAbort", *stolen), "the transaction is aborted"
    )


@pytest.mark.parametrize("is_implicit", [False, True])
def test_a_transaction_that_is_too_old_is_aborted_under_the_next_epoch(
    broker: BrokerClient, name: str, is_implicit: bool
) -> None:
    """The id can be taken over from that epoch unless another client has done so."""
    error, producer, epoch = broker.producer(name, timeout_ms=200)
    assert not error
    mine, aborted = (producer, epoch), (producer, epoch + 1)
    produce, end = (12, 5) if is_implicit else (11, 4)
    if not is_implicit:
        broker.add(name, mine, name)
    assert broker.produce(name, batch(mine, 0), transaction=name, version=produce) == (0, 0)
    wait_until(
        lambda: broker.transaction(name) == (0, "CompleteAbort", *aborted), "the transaction is aborted"
    )
    settled(broker, name, 3)
    assert broker.produce(name, batch(mine, 2), transaction=name, version=produce) == (47, -1)
    assert broker.add(name, mine, name) == 90
    assert broker.end(name, mine, commit=True, version=end) == (48 if is_implicit else 90, -1, -1)
    for _ in range(2):
        assert broker.producer(name, known=aborted) == (0, producer, epoch + 2)
    assert broker.transaction(name) == (0, "Empty", producer, epoch + 2)
    assert taken(broker, name) == (producer, epoch + 3)
    assert broker.producer(name, known=aborted) == (90, -1, -1)


def test_readers_of_committed_data_stop_in_front_of_an_open_transaction(
    broker: BrokerClient, name: str
) -> None:
    plain = build([(NOW, None, b"x", [])])
    broker.produce(name, plain)
    mine = taken(broker, name)
    broker.add(name, mine, name)
    broker.produce(name, batch(mine, 0), transaction=name)
    broker.produce(name, plain)
    assert ends(broker, name) == (4, 1)
    seen = broker.fetch(name, 0, committed=True)
    assert len(bytes(seen.records)) == len(plain)
    assert broker.offset(name, LATEST, committed=True)[1] == 1
    assert broker.offset(name, LATEST)[1] == 4
    assert [one[:2] for one in open_transactions(broker, name)] == [(mine[0], 1)]
    broker.end(name, mine, commit=True)
    settled(broker, name, 5)
    assert open_transactions(broker, name) == []


def open_transactions(broker: BrokerClient, topic: str) -> list[tuple[int, int]]:
    kind = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(topics=[kind(name=topic, partition_indexes=[0])])
    answer: Any = broker.ask(request, DescribeProducersResponse, 0).topics[0].partitions[0]
    assert answer.error_code == 0
    return [
        (one.producer_id, one.current_txn_start_offset)
        for one in answer.active_producers
        if one.current_txn_start_offset >= 0
    ]
