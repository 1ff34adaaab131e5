"""A cluster that is frozen, dead or closed to us is shown where people look: nothing is well, no lag is 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from stack.kafka import KafkaCluster
from tests.acls import PERMISSIVE, Forbidden, add_rules
from tests.e2e.conftest import NewInstance
from tests.freezing import frozen
from tests.scene import Scene, Shown, stands_still
from tests.servers import KafkaPair, NewKafka
from tests.situations import SERVERS

pytestmark = [pytest.mark.servers, pytest.mark.long]


@pytest.fixture
def kafka_pair(new_kafka: NewKafka) -> KafkaPair:
    """Clusters of this test, which it may kill, and where a right can be taken away."""
    start = partial(new_kafka, properties=PERMISSIVE)
    with ThreadPoolExecutor() as pool:
        return KafkaPair(*pool.map(start, ("source", "destination")))


@contextmanager
def killed(cluster: KafkaCluster) -> Iterator[None]:
    """Dead in the block."""
    cluster.kill()
    yield
    cluster.start()


def bring_about(scene: Scene, situation: str, ending: ExitStack) -> None:
    scene.begin_copied()
    source, destination = scene.kafka
    side = source if situation.startswith("the source") else destination
    if "may not" in situation:
        _allow_the_rest(side.address, scene.name if side is source else f"copy.{scene.name}")
    if situation == "the source topic may not be read":
        ending.enter_context(Forbidden(source.address, scene.name, AclOperation.READ))
    elif situation == "the destination topic may not be written":
        ending.enter_context(Forbidden(destination.address, f"copy.{scene.name}", AclOperation.WRITE))
    elif situation.endswith("frozen"):
        ending.enter_context(frozen(side.nodes[0].pid))
    else:
        ending.enter_context(killed(side))
    if side is destination:
        scene.write()


def _allow_the_rest(address: str, topic: str) -> None:
    """A topic of which anything is forbidden is otherwise closed, and not even shown."""
    what = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:*", "*", AclOperation.ALL)
    add_rules(AdminClient({"bootstrap.servers": address}), [AclBinding(*what, AclPermissionType.ALLOW)])


SHOWN: Final[Mapping[str, Shown]] = dict.fromkeys(SERVERS, stands_still)
"""When a situation is shown as it is."""


def test_a_cluster_that_is_away_is_shown_where_people_look(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    Scene(kafka_pair, new_instance("one")).rows(SERVERS, bring_about, SHOWN)
