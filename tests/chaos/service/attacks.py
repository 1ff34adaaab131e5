"""Attacks of a tenant that degrade the service for others, with only the rights of an owner."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from mirror.coordination.stores import node_codec
from mirror.coordination.stores.definition_document import to_document
from mirror.model.load import TaskLimits
from tests.builders import a_datastream
from tests.chaos.service.acts import Act, Outcome
from tests.chaos.service.operator_acts import Operator
from tests.chaos.service.schedule import Fault, Kind
from tests.chaos.service.site import Site
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.faults import Announce
from tests.kafka_data import make_topic

ATTACKS: Final = (Kind.BULK_CREATED, Kind.GREEDY_SOURCE, Kind.BROKEN_CREATED)
OBJECTIVE_SECONDS: Final = 10.0
"""Maximum time from the timestamp of a record to its arrival, for other tenants while nothing else fails."""
_PARTITIONS: Final = 190
_TRANSFORMS: Final = [f"drop-header:{number}{'x' * 970}" for number in range(10)]
_FETCH: Final = 1
_FRAME_BYTES: Final = 2**30
_SOURCES: Final = 3


class Attacker:
    """Creates datastreams that use as many resources as they can, and deletes them again."""

    def __init__(self, site: Site, operator: Operator, run: str) -> None:
        self._site, self._operator, self._run = site, operator, run
        self._numbers = itertools.count(1)

    def acts(self) -> Mapping[Kind, Act]:
        """Return the act of each kind."""
        acts = (self._create_bulk, self._offer_greedy_sources, self._create_broken)
        return dict(zip(ATTACKS, acts, strict=True))

    def _create_bulk(self, fault: Fault) -> Outcome:
        """Give each of many lanes ten transforms of nearly a kilobyte."""
        name = self._name("bulk")
        self._make_topic(name, _PARTITIONS)
        definition = self._definition(name, "source", policies={"transforms": _TRANSFORMS})
        return self._have(fault, definition)

    def _create_broken(self, fault: Fault) -> Outcome:
        """Store lanes that can never start, in several tasks, as if their plug-in had been uninstalled."""
        name = self._name("broken")
        self._make_topic(name, 4)
        datastream = a_datastream(
            name, name, metadata={"headrace.transforms": "no-such:x"}, limits=TaskLimits(min_tasks=2)
        )
        self._operator.store(name, node_codec.encode(to_document(datastream)))
        self._site.wait(fault.seconds)
        self._operator.delete(name)
        return Outcome(name)

    def _offer_greedy_sources(self, fault: Fault) -> Outcome:
        """Announce responses of 1 GiB from several clusters, and send none."""
        names = [self._name("greedy") for _ in range(_SOURCES)]
        with _greedy_clusters(names) as addresses:
            definitions = [
                self._definition(name, address) for name, address in zip(names, addresses, strict=True)
            ]
            return self._have(fault, *definitions)

    def _have(self, fault: Fault, *definitions: dict[str, Any]) -> Outcome:
        """Create the datastreams, keep them for the duration of the fault, and delete them."""
        for definition in definitions:
            self._operator.post(definition)
        self._site.wait(fault.seconds)
        for definition in definitions:
            self._operator.delete(definition["name"])
        return Outcome(", ".join(definition["name"] for definition in definitions))

    def _make_topic(self, name: str, partitions: int) -> None:
        """Create a topic of the source, retrying while the source is down."""
        while True:
            try:
                return make_topic(self._site.source.address, name, partitions)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return None
            self._site.wait(0.5)

    def _name(self, what: str) -> str:
        return f"{self._run}-{what}-{next(self._numbers)}"

    @staticmethod
    def _definition(name: str, source: str, **fields: object) -> dict[str, Any]:
        return {
            "name": name,
            "source": {"cluster": source, "topics": name},
            "destination": {"cluster": "destination", "name": "copy.*"},
            "metadata": {"owner": "attacker"},
            **fields,
        }


@contextmanager
def _greedy_clusters(topics: list[str]) -> Iterator[list[str]]:
    """Run a cluster for each topic; yield the addresses."""
    with ExitStack() as stack:
        clusters = [stack.enter_context(running(FakeCluster(topic))) for topic in topics]
        for cluster, topic in zip(clusters, topics, strict=True):
            with cluster.lock:
                cluster.create_topic(topic, 1, 1)
                cluster.faults.plant(_FETCH, Announce(_FRAME_BYTES), times=None)
        yield [cluster.address for cluster in clusters]
