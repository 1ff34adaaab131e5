"""A datastream group recreated under its old name with another destination."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from mirror.lane.lifecycle import LaneState
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from tests.engines import EngineUnderTest, check_copy, look, write
from tests.kafka_data import Record, make_topic

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW = int(time.time() * 1000)


def numbered(first: int, count: int) -> list[Record]:
    return [Record(0, b"k", b"%d" % number, (), NOW) for number in range(first, first + count)]


def after(
    engine: EngineUnderTest, topic: str, *names: str, crash: bool, policy: CopyPolicy
) -> EngineUnderTest:
    """Copy 100 records to the first name and end that engine; create all topics."""
    for name in names:
        make_topic(engine.destination, name)
    make_topic(engine.source, topic)
    write(engine.source, topic, numbered(0, 100))
    former = replace(engine, events=[])
    former.start(topic, destination=names[0], group=topic, policy=policy)
    former.run_to(topic, [100])
    former.run_for(1.0)
    former.crash() if crash else former.stop()
    return replace(engine, events=[])


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_new_destination_is_copied_from_its_own_start(
    engine: EngineUnderTest, guarantee: Guarantee, crash: bool
) -> None:
    policy = CopyPolicy(guarantee=guarantee)
    topic = f"renamed-{guarantee}-{crash}"
    second = after(engine, topic, f"a.{topic}", f"b.{topic}", crash=crash, policy=policy)
    second.start(topic, destination=f"b.{topic}", group=topic, policy=policy)
    write(engine.source, topic, numbered(100, 20))
    second.run_to(topic, [120])
    assert second.paused() == []
    assert (second.lane(topic).progress.ledger.start, second.lane(topic).progress.gaps) == (0, [])
    assert check_copy(second, topic, destination=f"b.{topic}") == 120
    assert len(look(engine.destination, f"a.{topic}")) == 100
    second.stop()
    third = replace(engine, events=[])
    third.start(topic, destination=f"b.{topic}", group=topic, policy=policy)
    write(engine.source, topic, numbered(120, 5))
    third.run_to(topic, [125])
    assert check_copy(third, topic, destination=f"b.{topic}") == 125, (
        "it did not continue from its own checkpoint"
    )
    third.stop()


def test_a_new_destination_may_begin_at_the_end(engine: EngineUnderTest) -> None:
    topic, policy = "renamed-latest", CopyPolicy()
    second = after(engine, topic, f"a.{topic}", f"b.{topic}", crash=False, policy=policy)
    second.start(topic, destination=f"b.{topic}", group=topic, policy=policy, start=StartPosition.LATEST)
    second.run_until(lambda: second.lane(topic).state is LaneState.COPYING, "the lane copies from the end")
    write(engine.source, topic, numbered(100, 3))
    second.run_to(topic, [103])
    assert [record.value for record in look(engine.destination, f"b.{topic}")] == [b"100", b"101", b"102"]
    second.stop()


def test_another_cluster_at_the_source_is_named_as_what_it_is(engine: EngineUnderTest) -> None:
    topic, policy = "renamed-source", CopyPolicy()
    after(engine, topic, topic, crash=False, policy=policy).stop()
    turned = replace(engine, source=engine.destination, events=[])
    turned.start(topic, destination=topic, group=topic, policy=policy)
    turned.run_until(turned.paused, "the lane pauses")
    assert "is another cluster (" in turned.paused()[0].reason
    turned.stop()
