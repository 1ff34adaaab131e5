"""Share groups (KIP-932) and streams groups (KIP-1071) follow between two clusters of Kafka 4.4."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from stack.jars.coordinates import NEWER_KAFKA
from stack.kafka import KafkaCluster, NodePorts
from stack.process.parallel import for_each
from stack.server import Jvm
from tests.contract.kafka.asking import BrokerClient
from tests.contract.kafka.group_offsets import alter, commit, starts
from tests.contract.kafka.heartbeats import share_member, streams_member
from tests.contract.kafka.test_groups import GROUP, listed
from tests.e2e.conftest import instances_of
from tests.e2e.test_group_following import PARTITIONS, abort_records, invoked
from tests.kafka_data import Record, group_positions, make_topic, produce
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

TOPIC: Final = "orders"
SHARE: Final = "billing-share"
STREAMS: Final = "billing-streams"
ABORTED: Final = 2
"""Offsets at the beginning of each source partition that are not copied: a record and its marker."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[KafkaPair]:
    """Return two clusters that have both types of groups."""
    jvm = Jvm(heap_mib=320, quick_start=True, jar_set=NEWER_KAFKA)
    both = [
        KafkaCluster(name, tmp_path / name, [NodePorts.free()], jvm=jvm) for name in ("source", "destination")
    ]
    for_each(both, KafkaCluster.start)
    yield KafkaPair(*both)
    for_each(both, KafkaCluster.kill)


@contextmanager
def clients(pair: KafkaPair) -> Iterator[tuple[BrokerClient, BrokerClient]]:
    """Yield clients of both clusters, which have coordinators for both groups."""
    found = BrokerClient(pair.source.address), BrokerClient(pair.destination.address)
    for client in found:
        for group in (SHARE, STREAMS):
            client.find_coordinator(GROUP, group)
    yield found
    for client in found:
        client.close()


def create(instance: RunningInstance) -> None:
    definition = {
        "name": "orders",
        "source": {"cluster": "source", "topics": TOPIC},
        "destination": {"cluster": "destination"},
        "groups": {"include": "billing-.*", "interval_seconds": 1},
        "metadata": {"owner": "tests"},
    }
    instance.rest.post("/v1/datastreams", definition)


def test_start_offsets_and_positions_follow(pair: KafkaPair, tmp_path: Path, service_name: str) -> None:
    make_topic(pair.source.address, TOPIC, PARTITIONS)
    abort_records(pair.source.address, TOPIC)
    produce(pair.source.address, TOPIC, [Record(0, None, b"%d" % number, (), 1_000) for number in range(100)])
    with instances_of(service_name, tmp_path, pair) as new_instance, clients(pair) as (source, target):
        instance = new_instance("one")
        create(instance)
        assert alter(source, SHARE, (TOPIC, 0, 50)) == [0]
        with streams_member(source, STREAMS, TOPIC, TOPIC):
            assert listed(source, STREAMS) is not None
        wait_until(lambda: commit(source, STREAMS, TOPIC, 40) == 0, "the member has left")

        def reasons(group: str) -> list[str]:
            found = instance.rest.get("/v1/datastreams/orders/consumer-groups")["groups"]
            return [reason for one in found if one["group"] == group for reason in one["reasons"]]

        def streams_position() -> int:
            return group_positions(pair.destination.address, STREAMS, TOPIC, PARTITIONS)[0]

        wait_until(lambda: starts(target, SHARE) == {0: 50 - ABORTED}, "the start offset has followed")
        assert listed(target, SHARE) == ("share", "Empty")
        wait_until(lambda: streams_position() == 40 - ABORTED, "the position has followed")
        assert alter(source, SHARE, (TOPIC, 0, 10)) == [0]
        wait_until(lambda: starts(target, SHARE) == {0: 10 - ABORTED}, "the reset has followed")
        sides = ("--source", "source", "--destination", "destination", "--state", "orders")
        found = invoked(instance, "translate", *sides, "--group", SHARE, "--as-group", f"{SHARE}-2")
        assert (found["kind"], found["committed"]) == ("share", 1)
        assert starts(target, f"{SHARE}-2") == {0: 10 - ABORTED}
        path = f"/v1/datastreams/orders/translation/groups/{SHARE}"
        (position,) = instance.rest.get(path)["positions"]
        assert (position["offset"], position["to_offset"]) == (10, 10 - ABORTED)
        with share_member(target, SHARE, TOPIC), streams_member(target, STREAMS, TOPIC, TOPIC):
            assert alter(source, SHARE, (TOPIC, 0, 60)) == [0]
            assert commit(source, STREAMS, TOPIC, 60) == 0
            wait_until(lambda: reasons(SHARE) == reasons(STREAMS) == ["members there"], "members are seen")
            assert starts(target, SHARE)[0] == 10 - ABORTED
            assert streams_position() == 40 - ABORTED
