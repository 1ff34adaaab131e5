"""Crashes, restarts and former owners: results of each guarantee, and fencing."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from mirror.client import producer_identity as identity
from mirror.lane.parts.ownership import identity_name
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import ProducerStamp
from mirror.replication.channels.channel_rules import ChannelKey
from mirror.replication.channels.sender import ROLES
from mirror.replication.ownership import producer_ids as identifying
from tests.engines import DESTINATION, SOURCE, EngineUnderTest, check_copy, look, specs, write
from tests.kafka_data import Record, delete_topic, group_positions, make_topic
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.long]

NOW = int(time.time() * 1000)
BATCH = 5


def numbered(first: int, count: int) -> list[Record]:
    return [
        Record(0, b"k", b"value-%d" % number * 20, (), NOW + number) for number in range(first, first + count)
    ]


def pair(engine: EngineUnderTest, topic: str) -> None:
    make_topic(engine.source, topic)
    make_topic(engine.destination, topic)


def another(engine: EngineUnderTest, **fields: object) -> EngineUnderTest:
    return EngineUnderTest(engine.source, engine.destination, **fields)  # type: ignore[arg-type]


def seen(engine: EngineUnderTest, topic: str) -> list[bytes | None]:
    return [record.value for record in look(engine.destination, topic)]


def crash_in_the_middle(engine: EngineUnderTest, topic: str, guarantee: Guarantee) -> EngineUnderTest:
    """Copy a part with an engine that rarely checkpoints and crashes, and the rest with a second one."""
    pair(engine, topic)
    first = another(engine, checkpoint_seconds=60.0)
    policy = CopyPolicy(guarantee=guarantee)
    write(engine.source, topic, numbered(0, 300), per_batch=BATCH)
    first.start(topic, policy=policy)
    lane = first.lane(topic)
    first.run_until(lambda: lane.checkpoint >= 300, "some records are copied")
    write(engine.source, topic, numbered(300, 300), per_batch=BATCH)
    first.run_until(lambda: lane.checkpoint > 300, "more records are copied")
    first.crash()
    second = another(engine)
    second.start(topic, policy=policy)
    second.run_to(topic, [600])
    return second


@pytest.mark.deep
def test_at_least_once_repeats_what_had_no_checkpoint_and_loses_nothing(engine: EngineUnderTest) -> None:
    second = crash_in_the_middle(engine, "own-least", Guarantee.AT_LEAST_ONCE)
    copies = seen(engine, "own-least")
    wanted = [record.value for record in numbered(0, 600)]
    assert len(copies) > 600
    assert copies[-600:] == wanted
    assert copies[: len(copies) - 600] == wanted[: len(copies) - 600]
    newest = [second.lane("own-least").progress.offset_map.forward(offset).offset for offset in range(600)]
    assert newest == list(range(len(copies) - 600, len(copies)))
    second.stop()


@pytest.mark.parametrize("guarantee", [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE])
def test_nothing_is_repeated_after_a_crash(engine: EngineUnderTest, guarantee: Guarantee) -> None:
    topic = f"own-{guarantee}"
    second = crash_in_the_middle(engine, topic, guarantee)
    assert check_copy(second, topic) == 600
    second.stop()


@pytest.mark.deep
def test_foreign_records_in_the_tail_do_not_confuse_the_comparison(engine: EngineUnderTest) -> None:
    pair(engine, "own-foreign")
    write(engine.source, "own-foreign", numbered(0, 100), per_batch=BATCH)
    first = another(engine, checkpoint_seconds=60.0)
    first.start("own-foreign")
    first.run_to("own-foreign", [100])
    write(engine.destination, "own-foreign", [Record(0, b"other", b"writer", (), NOW)])
    write(engine.source, "own-foreign", numbered(100, 20))
    first.run_to("own-foreign", [120])
    assert first.lane("own-foreign").observed.foreign_records == 1
    first.crash()
    second = another(engine)
    second.start("own-foreign")
    write(engine.source, "own-foreign", numbered(120, 20))
    second.run_to("own-foreign", [140])
    mine = [value for value in seen(engine, "own-foreign") if value != b"writer"]
    assert mine == [record.value for record in numbered(0, 140)]
    second.stop()


@pytest.mark.deep
def test_a_consumer_group_shows_only_what_is_committed(engine: EngineUnderTest) -> None:
    pair(engine, "own-shown")
    write(engine.source, "own-shown", numbered(0, 20))
    slow = another(engine, options={"transaction_interval_seconds": 30.0})
    policy = CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE)
    slow.start("own-shown", policy=policy, consumer_group="own-shown")
    slow.run_until(lambda: slow.lane("own-shown").checkpoint == 20, "all records are acknowledged")
    slow.context.run(slow.engine.checkpoints.groups.commit())
    assert group_positions(engine.source, "own-shown", "own-shown", 1) == [-1001]
    slow.stop()
    assert group_positions(engine.source, "own-shown", "own-shown", 1) == [20]


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_former_owner_is_fenced_on_the_partitions_that_moved_and_no_other(
    engine: EngineUnderTest, guarantee: Guarantee
) -> None:
    topic = f"own-fenced-{guarantee}"
    make_topic(engine.source, topic, 2)
    make_topic(engine.destination, topic, 2)
    policy = CopyPolicy(guarantee=guarantee)
    zombie, owner = another(engine), another(engine)
    write(engine.source, topic, [Record(number, None, b"1", (), NOW) for number in (0, 1)])
    zombie.start(topic, 2, policy=policy)
    zombie.run_to(topic, [1, 1])
    zombie.run_for(0.7)
    owner.start(topic, 1, policy=policy)
    write(engine.source, topic, [Record(number, None, b"2", (), NOW) for number in (0, 1)])
    owner.run_to(topic, [2])
    zombie.run_until(
        lambda: zombie.paused() and zombie.lane(topic, 1).checkpoint == 2,
        "one lane is fenced, the other continues",
    )
    assert [event.key.partition.partition for event in zombie.paused()] == [0]
    assert any(word in zombie.paused()[0].reason for word in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"))
    write(engine.source, topic, [Record(0, None, b"3", (), NOW)])
    owner.run_to(topic, [3])
    zombie.run_for(0.5)
    values = seen(engine, topic)
    assert (
        values[-2:] == [b"2", b"3"] if guarantee is Guarantee.AT_LEAST_ONCE else values == [b"1", b"2", b"3"]
    )
    zombie.crash()
    owner.stop()


@pytest.mark.deep
def test_lanes_that_are_expected_find_everything_ready(engine: EngineUnderTest) -> None:
    pair(engine, "own-expected")
    write(engine.source, "own-expected", numbered(0, 50))
    engine.start("own-expected")
    engine.run_to("own-expected", [50])
    second = another(engine)
    second.engine.expect_lanes(specs("own-expected"))
    source, target = (second.context.cluster(one) for one in (SOURCE, DESTINATION))
    wanted = {ChannelKey(committed=True, live=live).role for live in (False, True)} | {*ROLES}
    second.run_until(
        lambda: wanted <= {role for side in (source, target) for _, role in side.connections.known},
        "connections",
    )
    before = {*source.connections.known.values(), *target.connections.known.values()}
    write(engine.source, "own-expected", numbered(50, 50))
    engine.run_to("own-expected", [100])
    engine.stop()
    write(engine.source, "own-expected", numbered(100, 50))
    second.start("own-expected")
    second.run_to("own-expected", [150])
    assert {*source.connections.known.values(), *target.connections.known.values()} >= before
    assert all(one.is_open for one in before)
    assert seen(engine, "own-expected") == [record.value for record in numbered(0, 150)]
    second.stop()


@pytest.mark.deep
def test_a_lane_that_begins_anew_while_it_gets_its_identity_goes_on(
    engine: EngineUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its records arrive in one response, so that only the identity can make it continue."""
    pair(engine, "own-anew")
    write(engine.source, "own-anew", numbered(0, 20))
    engine.start("own-anew")
    lane, take = engine.lane("own-anew"), identity.take_identity

    async def take_slowly(*arguments: Any, **options: Any) -> ProducerStamp:
        stamp = await take(*arguments, **options)
        while lane.generation == 0 or not lane.queue.unsent:
            await engine.context.loop.sleep(0.01)
        return stamp

    monkeypatch.setattr(identifying, "take_identity", take_slowly)
    engine.run_until(lambda: lane.ownership.is_identifying, "the lane requests an identity")
    engine.engine.runner.restart(lane, "the test says so")
    engine.run_to("own-anew", [20])
    assert seen(engine, "own-anew") == [record.value for record in numbered(0, 20)]


@pytest.mark.deep
@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("sends", [False, True])
def test_a_lane_that_was_frozen_while_another_owner_copied_repeats_nothing(
    engine: EngineUnderTest, guarantee: Guarantee, sends: bool
) -> None:
    """When it wakes, it has loaded its progress long ago, and either finds records or is stopped."""
    topic = f"own-frozen-{guarantee}-{sends}"
    pair(engine, topic)
    policy = CopyPolicy(guarantee=guarantee)
    frozen, owner = another(engine), another(engine)
    frozen.start(topic, policy=policy)
    frozen.run_until(lambda: frozen.lane(topic).read.high_watermark == 0, "the lane has caught up")
    write(engine.source, topic, numbered(0, 1000), per_batch=100)
    owner.start(topic, policy=policy)
    owner.run_to(topic, [1000])
    owner.stop()
    if sends:
        frozen.run_to(topic, [1000])
    frozen.stop()
    write(engine.source, topic, numbered(1000, 10))
    engine.start(topic, policy=policy)
    engine.run_to(topic, [1010])
    assert seen(engine, topic) == [record.value for record in numbered(0, 1010)]
    assert engine.lane(topic).progress.ledger.start == 0


@pytest.mark.deep
@pytest.mark.parametrize("guarantee", [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE])
def test_a_former_owner_that_stops_late_does_not_take_progress_back(
    engine: EngineUnderTest, guarantee: Guarantee
) -> None:
    """It is drained and has an identity, so nothing reveals that there was another owner."""
    topic = f"own-late-{guarantee}"
    pair(engine, topic)
    policy = CopyPolicy(guarantee=guarantee)
    frozen, owner = another(engine), another(engine)
    write(engine.source, topic, numbered(0, 20))
    frozen.start(topic, policy=policy)
    frozen.run_to(topic, [20])
    write(engine.source, topic, numbered(20, 500), per_batch=100)
    owner.start(topic, policy=policy)
    owner.run_to(topic, [520])
    owner.stop()
    frozen.engine.stop_lanes([frozen.lane(topic).key])
    frozen.run_until(frozen.stopped, "the lane stops")
    frozen.stop()
    write(engine.source, topic, numbered(520, 10))
    engine.start(topic, policy=policy)
    engine.run_to(topic, [530])
    assert seen(engine, topic) == [record.value for record in numbered(0, 530)]


@pytest.mark.deep
@pytest.mark.parametrize("guarantee", [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE])
def test_of_owners_that_begin_at_once_one_copies_and_the_other_is_fenced_for_good(
    engine: EngineUnderTest, guarantee: Guarantee
) -> None:
    topic, partitions, each = f"own-race-{guarantee}", 4, 400
    make_topic(engine.source, topic, partitions)
    make_topic(engine.destination, topic, partitions)
    for number in range(partitions):
        records = [replace(one, partition=number) for one in numbered(0, each)]
        write(engine.source, topic, records, per_batch=20)
    policy = CopyPolicy(guarantee=guarantee)
    racers = [another(engine) for _ in range(3)]
    for racer in racers:
        racer.start(topic, partitions, policy=policy, end_offset=each)
    keys = [(racer, racer.lane(topic, number).key) for racer in racers for number in range(partitions)]

    def is_over(racer: EngineUnderTest, key: Any) -> bool:
        lane = racer.lanes.get(key)
        return lane is None or lane.is_fenced

    until = time.monotonic() + PATIENCE_SECONDS
    while not all(is_over(*one) for one in keys):
        assert time.monotonic() < until, [racer.describe() for racer in racers]
        for racer in racers:
            racer.step(0.01)
    for number in range(partitions):
        values = [one.value for one in look(engine.destination, topic, number)]
        assert values == [record.value for record in numbered(0, each)]
    for racer in racers:
        assert all(event.next_offset == each for event in racer.stopped())
        racer.stop()
    stopped = {event.key for racer in racers for event in racer.stopped() if event.next_offset == each}
    assert len(stopped) == partitions


@pytest.mark.deep
@pytest.mark.parametrize("guarantee", [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE])
def test_progress_that_was_deleted_is_missed_and_nothing_is_repeated(
    engine: EngineUnderTest, guarantee: Guarantee
) -> None:
    topic, progress = f"own-gone-{guarantee}", f"own-gone-progress-{guarantee}"
    pair(engine, topic)
    policy = CopyPolicy(guarantee=guarantee)
    write(engine.source, topic, numbered(0, 200), per_batch=BATCH)
    first = another(engine, progress_topic=progress)
    first.start(topic, policy=policy)
    first.run_to(topic, [200])
    first.stop()
    delete_topic(engine.destination, progress)
    write(engine.source, topic, numbered(200, 10))
    second = another(engine, progress_topic=progress)
    second.start(topic, policy=policy)
    second.run_to(topic, [210])
    assert seen(engine, topic) == [record.value for record in numbered(0, 210)]
    (gap,) = second.lane(topic).progress.gaps
    assert f"{topic}-0" in gap
    assert progress in gap
    second.stop()


@pytest.mark.deep
@pytest.mark.parametrize("guarantee", [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE])
def test_owners_that_have_written_nothing_but_markers_are_not_taken_for_a_copy(
    engine: EngineUnderTest, guarantee: Guarantee
) -> None:
    topic = f"own-markers-{guarantee}"
    pair(engine, topic)
    write(engine.source, topic, numbered(0, 20))
    (spec,) = specs(topic, policy=CopyPolicy(guarantee=guarantee))

    async def own_and_end() -> None:
        target, name = engine.context.cluster(DESTINATION), identity_name(spec.key)
        stamp = await identity.take_identity(target, name, 60.0)
        await identity.fence(target, name, stamp, TopicPartition(topic, 0), 60.0)

    engine.context.run(own_and_end())
    engine.start(topic, policy=spec.policy)
    engine.run_to(topic, [20])
    assert seen(engine, topic) == [record.value for record in numbered(0, 20)]
    assert engine.lane(topic).progress.gaps == []
