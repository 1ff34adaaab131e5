"""Names and numbers that identify domain objects, each with its own type so that they cannot be mixed up."""

from __future__ import annotations

from typing import Final, NewType

ClusterRef = NewType("ClusterRef", str)
"""Reference to a Kafka cluster: an alias from the settings, or `host:port[,host:port…]`."""

DatastreamName = NewType("DatastreamName", str)
GroupName = NewType("GroupName", str)
"""Name of a group of datastreams that share tasks (`system.taskPrefix`); by default the datastream's name."""

TaskName = NewType("TaskName", str)
"""Name of a task: `<group>-<number>`, numbered from 0."""

InstanceName = NewType("InstanceName", str)
"""Name of a running service, unique among live instances: `<host>:<pid>` unless configured."""

Epoch = NewType("Epoch", int)
"""Version of the plan; incremented with every published plan."""

NO_EPOCH: Final = Epoch(0)
"""The epoch before the first plan."""


def task_name(group: GroupName, number: int) -> TaskName:
    """Return the name of a group's task `number` (from 0)."""
    return TaskName(f"{group}-{number}")
