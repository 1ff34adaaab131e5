"""Test the order and the chunks in which a worker receives messages."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mirror.errors import InvalidRequest
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import CopyPolicy
from mirror.model.identifiers import Epoch, GroupName
from mirror.model.topics import TopicPartition
from mirror.worker.channel import MessageQueue
from mirror.worker.codec import LARGEST_SPEC
from mirror.worker.protocol import (
    PART_BYTES,
    ExpectLanes,
    Message,
    MessageReader,
    StartLanes,
    StopLanes,
    encode_parts,
)
from tests.builders import a_key, a_spec

LONG = CopyPolicy(transforms=tuple(f"drop-header:{number}{'x' * 970}" for number in range(10)))


def taken(queue: MessageQueue) -> list[bytes]:
    found = []
    while queue:
        found.append(queue.take())
    return found


def heard(frames: list[bytes]) -> list[Message]:
    reader = MessageReader()
    return [message for frame in frames for message in reader.feed(frame)]


def test_the_newest_lease_goes_first_and_older_ones_do_not_go() -> None:
    queue = MessageQueue()
    queue.put([b"one", b"two"])
    queue.put_lease(b"old")
    queue.put([b"three"])
    queue.put_lease(b"new")
    assert queue.take() == b"new"
    assert queue.take() == b"one"
    queue.put_lease(b"newer")
    assert taken(queue) == [b"newer", b"two", b"three"]


def test_the_last_message_replaces_what_waits() -> None:
    queue = MessageQueue()
    queue.put([b"one", b"two"])
    queue.put_lease(b"lease")
    queue.put_last(b"end")
    assert taken(queue) == [b"end"]


@pytest.mark.parametrize("kind", ["start", "expect"])
def test_many_lanes_go_in_parts_that_hold_each_policy_once(kind: str) -> None:
    specs = tuple(
        a_spec(f"t-{number}", group, policy=policy)
        for group, policy in (("long", LONG), ("short", CopyPolicy()))
        for number in range(2_000)
    )
    frames = encode_parts(StartLanes(Epoch(5), specs) if kind == "start" else ExpectLanes(specs))
    assert len(frames) > 5
    assert max(map(len, frames)) <= PART_BYTES
    for frame in frames:
        assert frame.count(LONG.transforms[3].encode()) <= 1
    messages = heard(frames)
    found = [spec for one in messages if isinstance(one, StartLanes | ExpectLanes) for spec in one.specs]
    assert found == list(specs)
    assert all(one.epoch == 5 for one in messages if isinstance(one, StartLanes))


@pytest.mark.parametrize("message", [StartLanes(Epoch(1), ()), ExpectLanes(()), StopLanes(())])
def test_no_lanes_are_one_message(message: Message) -> None:
    assert heard(encode_parts(message)) == [message]


def test_many_lanes_stop_in_parts() -> None:
    keys = tuple(a_key(f"t-{number}") for number in range(20_000))
    frames = encode_parts(StopLanes(keys))
    assert max(map(len, frames)) <= PART_BYTES
    assert [key for one in heard(frames) if isinstance(one, StopLanes) for key in one.keys] == list(keys)


def test_a_lane_that_takes_too_much_to_describe_is_refused() -> None:
    long = LaneKey(GroupName("orders"), TopicPartition("t" * 700_000, 1))
    specs = (a_spec("t-0"), replace(a_spec("t-1"), key=long))
    with pytest.raises(InvalidRequest):
        encode_parts(StartLanes(Epoch(1), specs))


def test_the_longest_lane_that_is_possible_fits_into_a_part() -> None:
    longest = CopyPolicy(transforms=tuple("x" * 1_000 for _ in range(45)))
    assert len(json.dumps(longest.transforms)) < LARGEST_SPEC
    (frame,) = encode_parts(StartLanes(Epoch(1), (a_spec("t-0", policy=longest),)))
    assert len(frame) <= PART_BYTES
