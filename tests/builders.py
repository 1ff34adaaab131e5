"""Factories of model values, with defaults for the fields a test does not need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mirror.control.admission import Admission, ClusterRights
from mirror.coordination.stores.membership import LiveInstance
from mirror.lane.ledger import Ledger, OffsetClass, compacted
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.load import LoadSource
from mirror.model.plan import Plan, TaskPlacement
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.protocol.batches.holes import OffsetHole, Span

SOURCE = ClusterRef("source")
DESTINATION = ClusterRef("destination")
SOURCE_LOADS = LoadSource(SOURCE)
"""Source of the loads of the service's provider."""
OPEN_CLUSTERS = Admission(dict.fromkeys((SOURCE, DESTINATION), ClusterRights()))
"""Admission of everyone to both clusters, and to no others."""


def a_datastream(
    name: str = "orders",
    topics: str = ".*",
    status: DatastreamStatus = DatastreamStatus.READY,
    metadata: Mapping[str, str] | None = None,
    **more: Any,
) -> Datastream:
    """Return a READY datastream with an owner, from `source` to `destination`."""
    values: dict[str, Any] = {
        "source": SOURCE,
        "destination": DESTINATION,
        "metadata": {"owner": "tests", **(metadata or {})},
        **more,
    }
    return Datastream(name=DatastreamName(name), selection=TopicSelection(topics), status=status, **values)


def partitions(*names: str) -> frozenset[TopicPartition]:
    """Return the parsed partitions: `partitions("t-0", "t-1")`."""
    return frozenset(TopicPartition.parse(name) for name in names)


def a_task(
    task: str, held: Iterable[str] = (), instance: str | None = "one", group: str | None = None
) -> TaskPlacement:
    """Return a task: `a_task("orders-0", ["t-0"])`; the group is the name before the last dash."""
    return TaskPlacement(
        TaskName(task),
        GroupName(group if group is not None else task.rpartition("-")[0]),
        InstanceName(instance) if instance else None,
        partitions(*held),
    )


def a_plan(*tasks: TaskPlacement, epoch: int = 1, reason: str = "because") -> Plan:
    """Return a plan of these tasks."""
    return Plan(Epoch(epoch), tasks, 1_700_000_000_000, reason)


def an_instance(name: str = "one", sequence: int = 0, weight: float = 1.0) -> LiveInstance:
    """Return a live instance."""
    return LiveInstance(InstanceName(name), sequence, "host", 1, "127.0.0.1:1", weight=weight)


def a_key(partition: str = "t-0", group: str = "orders") -> LaneKey:
    """Return a lane key."""
    return LaneKey(GroupName(group), TopicPartition.parse(partition))


def a_spec(partition: str = "t-0", group: str = "orders", task: str | None = None, **more: Any) -> LaneSpec:
    """Return a lane spec."""
    key = a_key(partition, group)
    values: dict[str, Any] = {
        "source": SOURCE,
        "destination": DESTINATION,
        "destination_topic": key.partition.topic,
        "consumer_group": group,
        **more,
    }
    return LaneSpec(key=key, task=TaskName(task or f"{group}-0"), **values)


def enter(ledger: Ledger, offset_class: OffsetClass, count: int) -> None:
    """Account for the next offsets; if compacted away, with a later batch as evidence."""
    first, following = ledger.next, ledger.next + count
    if offset_class is OffsetClass.COMPACTED:
        ledger.pass_over(compacted(OffsetHole(first, following, Span(following, following + 1))))
    else:
        ledger.enter(offset_class, count)


def a_progress(*classes: tuple[OffsetClass, int], start: int = 0, **more: Any) -> LaneProgress:
    """Return the stored progress after these offsets; mirrored records start at destination offset 100."""
    ledger, offset_map, target = Ledger(start), OffsetMap(), 100
    for offset_class, count in classes:
        if offset_class is OffsetClass.MIRRORED:
            offset_map.add(ledger.next, target, count)
            target += count
        enter(ledger, offset_class, count)
    return LaneProgress(ledger, offset_map, **{"target_topic": "t", **more})
