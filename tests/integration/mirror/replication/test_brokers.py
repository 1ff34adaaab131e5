"""Failures and returns of brokers, and moving leaders: only the affected partitions wait, and briefly."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka.admin import NewTopic

from mirror.lane.parts.ownership import identity_name
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from stack.kafka import KafkaCluster
from tests.contract.kafka.asking import BrokerClient
from tests.engines import EngineUnderTest, check_copy, write
from tests.kafka_data import Record, admin_client, make_topic
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

NOW = int(time.time() * 1000)
PARTITIONS = 6


def records(first: int, count: int) -> list[Record]:
    return [
        Record(number % PARTITIONS, b"k%d" % number, b"v" * 400, (), NOW + number)
        for number in range(first, first + count)
    ]


def make(cluster: KafkaCluster, topic: str, replicas: int, nodes: list[int] | None = None) -> None:
    """Create a topic. `nodes`: brokers that each hold partitions alone, in turn."""
    admin = admin_client(cluster.address)
    assignment = [[nodes[number % len(nodes)]] for number in range(PARTITIONS)] if nodes else None
    new = (
        NewTopic(topic, PARTITIONS, replica_assignment=assignment)
        if assignment
        else NewTopic(topic, PARTITIONS, replicas)
    )
    admin.create_topics([new])[topic].result(PATIENCE_SECONDS)


def leaders(cluster: KafkaCluster, topic: str) -> list[int]:
    admin = admin_client(cluster.address, log_level=0)
    partitions = admin.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
    return [partitions[number].leader for number in sorted(partitions)]


def is_led(cluster: KafkaCluster, topic: str) -> bool:
    return -1 not in leaders(cluster, topic)


def test_leaders_move_on_both_sides_while_records_flow(
    new_kafka: NewKafka, new_engine: Callable[..., EngineUnderTest]
) -> None:
    settings = {"min.insync.replicas": 2, "unclean.leader.election.enable": "false"}
    source = new_kafka("source", nodes=3, properties=settings)
    target = new_kafka("destination", nodes=3, properties=settings)
    for cluster in (source, target):
        make(cluster, "moving", 3)
    engine = new_engine(source.address, target.address)
    engine.start("moving", PARTITIONS)
    sent = 600
    write(source.address, "moving", records(0, sent), acks="all", retries=1_000)
    engine.run_until(lambda: all(lane.checkpoint for lane in engine.lanes.values()), "all lanes copy")
    for cluster, node in ((target, 0), (source, 1), (target, 2)):
        write(source.address, "moving", records(sent, 1_200), acks="all", retries=1_000)
        sent += 1_200
        victim = cluster.nodes[node]
        before = leaders(cluster, "moving")
        victim.kill()
        engine.run_to("moving", [sent // PARTITIONS] * PARTITIONS)
        victim.start()
        wait_until(partial(is_led, cluster, "moving"), "all partitions have leaders again")
        assert node + 1 in before
    write(source.address, "moving", records(sent, 600), acks="all", retries=1_000)
    engine.run_to("moving", [(sent + 600) // PARTITIONS] * PARTITIONS)
    assert check_copy(engine, "moving", PARTITIONS) == sent + 600
    assert not [event for event in engine.paused() if not is_stall(event.reason)]
    engine.stop()


def is_stall(reason: str) -> bool:
    """Return whether the lane waits without being paused."""
    return ", since 2" in reason


def test_only_the_partitions_of_a_lost_broker_wait_and_it_is_said_for_what(
    new_kafka: NewKafka, new_engine: Callable[..., EngineUnderTest]
) -> None:
    source = new_kafka("source")
    target = new_kafka("destination", nodes=3, properties={"offsets.topic.replication.factor": 3})
    make(source, "lost", 1)
    make(target, "lost", 1, nodes=[1, 2])
    engine = new_engine(source.address, target.address, options={"buffer_bytes": 8 * 2**20})
    engine.start("lost", PARTITIONS)
    write(source.address, "lost", records(0, 600))
    engine.run_to("lost", [100] * PARTITIONS)
    target.nodes[1].kill()
    big = [Record(number % PARTITIONS, None, b"x" * 100_000, (), NOW) for number in range(1_200)]
    write(source.address, "lost", big)
    staying = [number for number in range(PARTITIONS) if number % 2 == 0]
    engine.run_until(
        lambda: all(engine.lane("lost", number).checkpoint == 300 for number in staying),
        "the other lanes continue",
    )
    waits = [engine.lane("lost", number) for number in (1, 3, 5)]
    engine.run_until(
        lambda: all(is_stall(lane.observed.stalled_by) for lane in waits),
        "the waiting lanes report the reason",
    )
    assert not any("lost" in engine.lane("lost", number).observed.stalled_by for number in staying)
    bench = engine.context
    assert bench.budget.used + bench.live_budget.used <= 8 * 2**20 + 8 * 2**20
    assert all(engine.lane("lost", number).checkpoint < 300 for number in (1, 3, 5))
    target.nodes[1].start()
    wait_until(partial(is_led, target, "lost"), "the broker leads again", interval_seconds=0.02)
    waiting = {number: engine.lane("lost", number).checkpoint for number in (1, 3, 5)}
    engine.run_until(
        lambda: all(engine.lane("lost", number).checkpoint > waiting[number] for number in waiting),
        "the waiting lanes resume",
    )
    engine.run_to("lost", [300] * PARTITIONS)
    engine.run_until(
        lambda: not any(lane.observed.stalled_by for lane in engine.lanes.values()), "no lane waits"
    )
    assert check_copy(engine, "lost", PARTITIONS) == 1_800
    engine.stop()


def test_a_lane_whose_transaction_was_aborted_while_its_broker_stood_still_copies_on(
    source_kafka: KafkaCluster, new_kafka: NewKafka, new_engine: Callable[..., EngineUnderTest]
) -> None:
    """It is detected by a rejected batch, or by a commit."""
    target, topic = new_kafka("destination"), "too-old"
    for cluster in (source_kafka, target):
        make_topic(cluster.address, topic)
    options = {"transaction_interval_seconds": 300.0, "transaction_timeout_seconds": 1.0}
    engine = new_engine(source_kafka.address, target.address, options=options)
    engine.start(topic, policy=CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE))
    lane, asking = engine.lane(topic), BrokerClient(target.address)
    end = 0

    def send(count: int) -> None:
        nonlocal end
        end += count
        write(source_kafka.address, topic, [Record(0, b"k", b"%d" % n, (), NOW) for n in range(count)])

    for is_committed in (False, True):
        send(10)
        engine.run_until(lambda: lane.checkpoint == end and not lane.queue.in_flight, "all records are sent")
        former = lane.ownership.identity
        target.nodes[0].suspend()
        engine.run_for(options["transaction_timeout_seconds"])
        target.nodes[0].resume()
        wait_until(
            lambda: asking.transaction(identity_name(lane.key))[1] == "CompleteAbort",
            "the transaction is aborted",
        )
        if is_committed:
            engine.engine.runner.transactions.commit(lane)
        else:
            send(10)
        again = {None, former}
        engine.run_until(
            partial(lambda old: lane.ownership.identity not in old, again), "the lane has a new identity"
        )
        engine.run_until(lambda: lane.checkpoint == end, "all records are sent again")
        engine.engine.runner.transactions.commit(lane)
        engine.run_to(topic, [end])
    asking.close()
    assert not lane.is_fenced
    assert check_copy(engine, topic) == end == 30
    engine.stop()
