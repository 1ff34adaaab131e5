"""Test which of the ready lanes a produce request includes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.model.topics import TopicPartition
from mirror.replication.channels.produce_channel import ProduceChannel
from mirror.replication.options import CopyingOptions


def a_channel() -> ProduceChannel:
    loop = SimpleNamespace(call_soon=lambda _: None)
    listener = SimpleNamespace(next_batch=lambda _: SimpleNamespace(batch=b"batch"))
    sink = SimpleNamespace(cluster=SimpleNamespace(loop=loop), listener=listener)
    return ProduceChannel(cast(Any, sink), 1, "writes", CopyingOptions())


class Named:
    """Named values that can be a key, as a lane can."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


def a_lane(topic: str, *, is_live: bool, transactional_id: bytes | None = None) -> Any:
    """Return the attributes that a channel reads of a lane that never runs out of batches."""
    return Named(
        target=TopicPartition(topic, 0),
        key=None,
        read=SimpleNamespace(is_live=is_live),
        ownership=SimpleNamespace(transactional_id=lambda _key: transactional_id),
        queue=SimpleNamespace(unsent=[b"batch"]),
        may_send=lambda: True,
    )


def topics_of(channel: ProduceChannel) -> list[str]:
    return [lane.target.topic for lane, _ in channel._choose()[0]]


@pytest.mark.parametrize("others", [1, 3])
def test_a_transaction_that_catches_up_is_written_beside_lanes_that_always_have_batches(others: int) -> None:
    channel = a_channel()
    channel.wake(a_lane("behind", is_live=False, transactional_id=b"id"))
    live = [f"live-{number}" for number in range(others)]
    for topic in live:
        channel.wake(a_lane(topic, is_live=True))
    assert [sorted(topics_of(channel)) for _ in range(4)] == [live, ["behind"], live, ["behind"]]


@pytest.mark.parametrize("transactional_id", [None, b"id"])
def test_transactions_leave_requests_to_lanes_that_catch_up(transactional_id: bytes | None) -> None:
    channel = a_channel()
    channel.wake(a_lane("live", is_live=True, transactional_id=b"live"))
    channel.wake(a_lane("behind", is_live=False, transactional_id=transactional_id))
    assert [topics_of(channel) for _ in range(4)] == [["live"], ["behind"], ["live"], ["behind"]]


def test_lanes_that_are_up_to_date_come_first() -> None:
    channel = a_channel()
    channel.wake(a_lane("behind", is_live=False))
    channel.wake(a_lane("live", is_live=True))
    assert [topics_of(channel) for _ in range(3)] == [["live", "behind"]] * 3
