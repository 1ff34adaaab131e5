"""Test records that the destination rejects, and the records around them."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.lane.ledger import OffsetClass
from mirror.model.datastreams.policy import CopyPolicy, OnRejection
from mirror.model.topics import DEAD_LETTER_SUFFIX
from tests.fakes.broker import batches
from tests.fakes.broker.batches import Content
from tests.fakes.broker.contents import committed
from tests.fakes.broker.faults import Code, Edit, HandledRequest
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, FETCH, DESCRIBE_CONFIGS, NOT_AUTHORIZED = 0, 1, 32, 29
GZIP = 1
LETTERS = "t" + DEAD_LETTER_SUFFIX
POLICY = CopyPolicy(on_rejection=OnRejection.DEAD_LETTER)


def topic_with(fakes: MirroredFakes, setting: str, value: str) -> None:
    """Create the topic; override one setting at the destination."""
    fakes.make_topic("t")
    fakes.target.topics["t"].own[setting] = value


def without_key(content: Content) -> Content:
    time_ms, _, value, headers = content
    return (time_ms, None, value, headers)


def letters(fakes: MirroredFakes) -> list[int]:
    """Return the source offsets of the dead letters."""
    found = committed(fakes.target.log(LETTERS, 0)) if LETTERS in fakes.target.topics else []
    return [int(dict(one.headers)["headrace-offset"] or b"") for one in found]


def test_a_refused_record_of_a_batch_with_holes_is_found_by_its_offset(fakes: MirroredFakes) -> None:
    topic_with(fakes, "cleanup.policy", "compact")
    fakes.write("t", 0, 5)
    fakes.source.write_in_transaction("t", fakes.records(100, 2), commit=False)
    later = fakes.records(8, 5)
    fakes.source.append("t", batches.build([*later[:2], without_key(later[2]), *later[3:]]))
    fakes.start("t", policy=POLICY)
    fakes.run_to("t", 13)
    assert letters(fakes) == [10]
    assert fakes.numbers("t") == [0, 1, 2, 3, 4, 8, 9, 11, 12]


def test_a_record_is_passed_over_when_its_letter_is_written_and_not_before(fakes: MirroredFakes) -> None:
    topic_with(fakes, "cleanup.policy", "compact")
    contents = fakes.records(0, 5)
    fakes.target.faults.plant(PRODUCE, Code(NOT_AUTHORIZED, LETTERS), times=None)
    fakes.source.append("t", batches.build([*contents[:2], without_key(contents[2]), *contents[3:]]))
    fakes.start("t", policy=POLICY)
    fakes.run_until_paused("t")
    fakes.run(10)
    assert fakes.lane("t").checkpoint <= 2
    fakes.target.faults.clear()
    fakes.run_to("t", 5)
    assert letters(fakes) == [2]
    assert fakes.lane("t").progress.ledger.total(OffsetClass.DEAD_LETTERED) == 1
    assert fakes.numbers("t") == [0, 1, 3, 4]


def test_what_lies_in_front_of_a_record_that_cannot_be_sent_is_copied_before_the_pause(
    fakes: MirroredFakes,
) -> None:
    topic_with(fakes, "max.message.bytes", "400")
    fakes.write("t", 0, 3)
    fakes.source.write("t", [(fakes.clock.now_ms(), b"key", b"x" * 600, [])])
    fakes.start("t")
    fakes.run_until_paused("t")
    fakes.run(10)
    assert fakes.numbers("t") == [0, 1, 2]
    assert fakes.lane("t").checkpoint == 3


@pytest.mark.parametrize("policy", OnRejection)
def test_a_record_that_the_destination_accepts_is_not_too_large_after_a_rejected_batch(
    fakes: MirroredFakes, policy: OnRejection
) -> None:
    """Without the right to describe the topic, its limit is learned from rejections."""
    topic_with(fakes, "max.message.bytes", "9500")
    fakes.target.faults.plant(DESCRIBE_CONFIGS, Code(NOT_AUTHORIZED, "t"), times=None)
    now_ms = fakes.clock.now_ms()
    large: Content = (now_ms, b"key", b"x" * 8_000, [])
    small: Content = (now_ms, b"key", b"y" * 2_000, [])
    for _ in range(2):
        fakes.source.write("t", [large, small])
        fakes.source.write("t", [large])
    fakes.start("t", policy=CopyPolicy(on_rejection=policy))
    fakes.run_to("t", 6)
    fakes.check("t")
    assert not letters(fakes)
    assert not fakes.pauses(fakes.lane("t").key)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_refused_record_of_an_old_message_becomes_a_letter(fakes: MirroredFakes, magic: int) -> None:
    topic_with(fakes, "cleanup.policy", "compact")
    contents = [(None if number == 2 else b"key", b"%d" % number) for number in range(5)]
    fakes.source.append("t", batches.old_messages(contents, 0, magic, GZIP))
    fakes.start("t", policy=POLICY)
    fakes.run_to("t", 5)
    assert letters(fakes) == [2]
    assert fakes.numbers("t") == [0, 1, 3, 4]


def test_a_letter_that_cannot_be_read_is_not_passed_over(fakes: MirroredFakes) -> None:
    topic_with(fakes, "cleanup.policy", "compact")
    contents = fakes.records(0, 5)
    fakes.source.append("t", batches.build([*contents[:2], without_key(contents[2]), *contents[3:]]))
    fakes.source.faults.plant(FETCH, Edit(without_records), fits=is_alone, times=None)
    fakes.start("t", policy=POLICY)
    fakes.run_until_paused("t")
    assert fakes.lane("t").checkpoint <= 2
    assert not letters(fakes)
    fakes.source.faults.clear()
    fakes.run_to("t", 5)
    assert letters(fakes) == [2]


def without_records(answer: Any) -> None:
    """Remove the records from a response, as after compaction."""
    for topic in answer.responses:
        for part in topic.partitions:
            part.records = b""


def is_alone(asked: HandledRequest) -> bool:
    """Return whether a request reads single records, without a fetch session."""
    return bool(asked.message.session_epoch == -1)
