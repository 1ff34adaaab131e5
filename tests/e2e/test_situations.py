"""Reports of problems of a datastream or its topics: none shows a problem as healthy, or an unknown lag as 0.

With WRITE_SITUATIONS=1 in the environment the rows of the table on docs/operate/signals.md are updated with
the observations.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from mirror.model.datastreams.lanes import QuotaOwner
from tests.e2e.conftest import NewInstance
from tests.kafka_data import admin_client, delete_topic, make_topic
from tests.patience import PATIENCE_SECONDS
from tests.scene import PARTITIONS, Scene, Shown, is_held_back, lanes_are, stands_still
from tests.servers import KafkaPair
from tests.situations import TOPICS

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

WHY: Final = {"reason": "ticket 7", "requested_by": "alice"}
UNCOPIED: Final[Mapping[str, Mapping[str, Any]]] = {
    "partitions have no task": {"limits": {"max_tasks": 1, "max_partitions_per_task": 1}},
    "no topic matches": {"topics": "there-is-no-such-topic"},
}
"""Datastreams that have a problem from the beginning."""
QUOTA: Final = 20_000
"""Bytes per second of the datastream with a quota; its backlog is 100 times this."""


def bring_about(scene: Scene, situation: str, _: ExitStack) -> None:
    if situation in UNCOPIED:
        scene.begin(**UNCOPIED[situation])
        return
    metadata = {"owner": "tests", "headrace.bytes-per-second": str(QUOTA)}
    scene.begin_copied(**({"metadata": metadata} if situation.startswith("a quota") else {}))
    path = f"/v1/datastreams/{scene.name}"
    source, destination = scene.kafka
    count = 1
    match situation:
        case "a partition is paused by an operator":
            scene.instance.rest.post(f"{path}/pause-partitions", {"partitions": {scene.name: "0"}, **WHY})
        case "a datastream is paused by an operator":
            scene.instance.rest.post(f"{path}/pause", WHY)
        case "the destination refuses a record":
            set_up_topic(
                destination.address, f"copy.{scene.name}", {"message.timestamp.before.max.ms": "1000"}
            )
        case "the source topic was deleted and created again":
            delete_topic(source.address, scene.name)
            make_topic(source.address, scene.name, PARTITIONS, retention_ms="-1")
        case "the destination topic was deleted":
            delete_topic(destination.address, f"copy.{scene.name}")
        case "a quota of Headrace throttles the datastream":
            count = 100
    scene.write(count, size=QUOTA // PARTITIONS if count > 1 else 100)


def set_up_topic(address: str, topic: str, settings: Mapping[str, str]) -> None:
    """Change settings of a topic."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = admin_client(address)
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_SECONDS)


SHOWN: Final[Mapping[str, Shown]] = {
    "a partition is paused by an operator": lambda seen: (
        sorted(lane["phase"] for lane in seen.lanes) == ["copying", "paused"]
        and all(lane["lag_records"] for lane in seen.lanes if lane["by"] == "person")
        and "paused by people" in seen.parts
        and "command" in seen.events
    ),
    "a datastream is paused by an operator": lambda seen: (
        lanes_are(seen, "paused")
        and all(lane["by"] == "person" and lane["lag_records"] for lane in seen.lanes)
        and "paused by people" in seen.parts
        and "command" in seen.events
    ),
    "partitions have no task": lambda seen: (
        seen.status == 503
        and any(lane["phase"] == "unplaced" and lane["lag_records"] != 0 for lane in seen.lanes)
        and "problem" in seen.events
    ),
    "no topic matches": lambda seen: "problem" in seen.events and bool(seen.datastream.get("problem")),
    "the destination refuses a record": stands_still,
    "the source topic was deleted and created again": stands_still,
    "the destination topic was deleted": stands_still,
    "a quota of Headrace throttles the datastream": lambda seen: is_held_back(seen, QuotaOwner.DATASTREAM),
}
"""Conditions under which each situation is shown correctly."""


def test_what_is_wrong_with_topics_is_shown_where_people_look(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    Scene(kafka_pair, new_instance("one")).rows(TOPICS, bring_about, SHOWN)
