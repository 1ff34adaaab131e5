"""Names and numbers of domain objects, each with its own type."""

from __future__ import annotations

from typing import Final, NewType

ClusterRef = NewType("ClusterRef", str)
"""Reference to a Kafka cluster: an alias from the settings, or `host:port[,host:port…]`."""

DatastreamName = NewType("DatastreamName", str)
GroupName = NewType("GroupName", str)
"""Name of a group of datastreams that share tasks (`system.taskPrefix`), by default the datastream's name."""

TaskName = NewType("TaskName", str)
"""Name of a task: `<group>-<number>`, numbered from 0."""

InstanceName = NewType("InstanceName", str)
"""Name of an instance, unique among live instances. Default: `<host>:<pid>`."""

Epoch = NewType("Epoch", int)
"""Version of the plan, incremented with every published plan."""

NO_EPOCH: Final = Epoch(0)
"""Epoch before the first plan."""


def task_name(group: GroupName, number: int) -> TaskName:
    """Return the name of a group's task `number` (from 0)."""
    return TaskName(f"{group}-{number}")
