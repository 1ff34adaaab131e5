"""Names and numbers that identify things, each a type of its own so that they cannot be swapped."""

from __future__ import annotations

from typing import Final, NewType

ClusterRef = NewType("ClusterRef", str)
"""A Kafka cluster: an alias from the settings, or `host:port[,host:port…]`."""

DatastreamName = NewType("DatastreamName", str)
GroupName = NewType("GroupName", str)
"""Datastreams of one group share tasks (`system.taskPrefix`); by default the datastream's name."""

TaskName = NewType("TaskName", str)
"""`<group>-<number>`, numbered from 0."""

InstanceName = NewType("InstanceName", str)
"""One running service; unique among those alive: `<host>:<pid>` unless configured."""

Epoch = NewType("Epoch", int)
"""Version of the plan; rises by one with every published plan."""

NO_EPOCH: Final = Epoch(0)
"""The epoch before the first plan."""


def task_name(group: GroupName, number: int) -> TaskName:
    """The name of a group's task `number` (from 0)."""
    return TaskName(f"{group}-{number}")
