"""Administrative requests to a cluster of several brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Final

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    PartitionMetadata,
    ResourceType,
)
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse

from stack.kafka import KafkaCluster
from tests.contract.kafka.asking import BrokerClient
from tests.kafka_data import admin_client
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.throttling import READING, WRITING, throttled

_CALL_SECONDS: Final = 5.0
_EVERY_CLIENT: Final = ""

Place = tuple[str, int]
"""Topic and partition."""


class Administration:
    """Requests to one cluster. `topics`: those that the requests concern."""

    def __init__(self, cluster: KafkaCluster, topics: Sequence[str]) -> None:
        self._cluster, self._topics = cluster, topics
        self._admin: AdminClient = admin_client(cluster.address, log_level=0)

    def create(self, partitions: int) -> None:
        """Create the topics with a replica on every broker; leaders are distributed evenly."""
        nodes = [node.node_id for node in self._cluster.nodes]
        replicas = [_rotated(nodes, number) for number in range(partitions)]
        new = [NewTopic(topic, partitions, replica_assignment=replicas) for topic in self._topics]
        for result in self._admin.create_topics(new).values():
            result.result(PATIENCE_SECONDS)
        self.wait_in_sync()

    def partitions(self) -> Mapping[Place, PartitionMetadata] | None:
        """Return all partitions of the cluster; None while it does not respond."""
        try:
            topics = self._admin.list_topics(timeout=_CALL_SECONDS).topics
        except KafkaException:
            return None
        return {
            (name, number): one for name, topic in topics.items() for number, one in topic.partitions.items()
        }

    def mine(self) -> Mapping[Place, PartitionMetadata]:
        """Return the partitions of the topics; none while the cluster does not respond."""
        return {place: one for place, one in (self.partitions() or {}).items() if place[0] in self._topics}

    def wait_in_sync(self) -> None:
        """Wait until every partition of the cluster has a leader, and all its replicas are in sync."""

        def are_in_sync() -> bool:
            found = self.partitions()
            return (
                found is not None
                and {place[0] for place in found} >= set(self._topics)
                and all(one.leader >= 0 and len(one.isrs) == len(one.replicas) for one in found.values())
            )

        wait_until(are_in_sync, f"all replicas of {self._cluster.name} are in sync")

    def wait_for_replicas(self, nodes: Sequence[int]) -> None:
        """Wait until only these brokers are in sync."""
        wait_until(
            lambda: (found := self.mine()) and all(set(one.isrs) == set(nodes) for one in found.values()),
            f"only the brokers {nodes} of {self._cluster.name} are in sync",
        )

    def require(self, in_sync: int) -> None:
        """Set `min.insync.replicas`."""
        change = ConfigEntry("min.insync.replicas", str(in_sync), incremental_operation=AlterConfigOpType.SET)
        resources = [
            ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change]) for topic in self._topics
        ]
        for result in self._admin.incremental_alter_configs(resources).values():
            result.result(PATIENCE_SECONDS)

    def elect(self, kind: ElectionType, nodes: Sequence[int]) -> None:
        """Elect leaders of the partitions; return when each is led by one of these brokers."""
        wait_until(lambda: self._are_led(kind, nodes), f"the partitions of {self._cluster.name} are led")

    def _are_led(self, kind: ElectionType, nodes: Sequence[int]) -> bool:
        places = [TopicPartition(*place) for place in self.mine()]
        if not places:
            return False
        # A client sends the request only to the controller that it knows, and waits for a dead one, too.
        timeout_ms = round(_CALL_SECONDS * 1000)
        admin = AdminClient(
            {"bootstrap.servers": self._cluster.address, "socket.timeout.ms": timeout_ms, "log_level": 0}
        )
        try:
            admin.elect_leaders(kind, places).result(PATIENCE_SECONDS)
        except KafkaException:  # no controller yet
            return False
        return {one.leader for one in self.mine().values()} <= set(nodes)

    def reassign(self, rotation: int, replicas: int) -> None:
        """Move the partitions to this number of brokers, and wait until they have moved.

        `rotation`: number of places by which the replicas are rotated.
        """
        nodes = sorted(node.node_id for node in self._cluster.nodes)
        self._move({place: _rotated(nodes, place[1] + rotation)[:replicas] for place in self.mine()})

    def keep_only(self, nodes: Sequence[int]) -> None:
        """Keep only the replicas of these brokers, the preferred leader first."""
        self._move({place: list(nodes) for place in self.mine()})

    def _move(self, wanted: Mapping[Place, list[int]]) -> None:
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=60_000,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.ReassignablePartition(partition_index=number, replicas=nodes)
                        for (of, number), nodes in wanted.items()
                        if of == name
                    ],
                )
                for name in self._topics
            ],
        )
        with closing(BrokerClient(self._cluster.address)) as client:
            answer = client.ask(request, AlterPartitionReassignmentsResponse, 0)
        errors = [part.error_code for one in answer.responses for part in one.partitions]
        assert (answer.error_code, set(errors)) == (0, {0}), answer

        def have_moved() -> bool:
            found = self.mine()
            return all(place in found and found[place].replicas == nodes for place, nodes in wanted.items())

        wait_until(have_moved, f"the partitions of {self._cluster.name} have moved")

    @contextmanager
    def throttled(self, bytes_per_second: float) -> Iterator[None]:
        """Limit reading and writing of every client at each broker within the context."""
        with ExitStack() as stack:
            for quota in (READING, WRITING):
                stack.enter_context(throttled(self._cluster.address, quota, _EVERY_CLIENT, bytes_per_second))
            yield


def _rotated(nodes: Sequence[int], by: int) -> list[int]:
    first = by % len(nodes)
    return [*nodes[first:], *nodes[:first]]
