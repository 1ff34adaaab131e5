"""Finds conflicting settings of datastreams that share tasks. Pure.

Changes that would cause a conflict are rejected, but two concurrent changes can still cause one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import GROUP_ID
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.load import impossible_limits, joint_limits


def contradictions(datastreams: Sequence[Datastream]) -> Mapping[DatastreamName, str]:
    """Map each datastream to a message about its conflicts with older datastreams of its group. The message
    names the setting that applies. `datastreams`: oldest first."""
    groups: dict[GroupName, list[Datastream]] = {}
    for datastream in datastreams:
        groups.setdefault(datastream.group, []).append(datastream)
    found = {}
    for members in groups.values():
        for number, member in enumerate(members):
            problems = [
                *_limits(member, members[:number], members),
                *_consumer_group(member, members[:number]),
            ]
            if problems:
                found[member.name] = "; ".join(problems)
    return found


def other_consumer_group(datastream: Datastream, other: Datastream) -> str:
    """Return the `group.id` of `other` if it differs from that of `datastream`, otherwise an empty string.

    Returns an empty string unless both datastreams set a `group.id`.
    """
    mine, theirs = datastream.metadata.get(GROUP_ID), other.metadata.get(GROUP_ID)
    return theirs if mine and theirs and mine != theirs else ""


def _limits(
    datastream: Datastream, older: Sequence[Datastream], members: Sequence[Datastream]
) -> Iterator[str]:
    """Yield a message for each older datastream of the group whose task limits contradict those of the
    datastream. The minimum of one datastream can exceed the maximum of another."""
    for other in older:
        if bounds := impossible_limits((datastream.limits, other.limits)):
            least, most = bounds
            counts = joint_limits(each.limits for each in members)
            yield (
                f"task limits conflict with those of {other.name}, which shares the tasks (minimum {least},"
                f" maximum {most}): the strictest limits apply, at most {counts.max_tasks}"
            )
            return


def _consumer_group(datastream: Datastream, older: Sequence[Datastream]) -> Iterator[str]:
    for other in older:
        if theirs := other_consumer_group(datastream, other):
            yield (
                f"shared tasks: {other.name} commits to {GROUP_ID} {theirs}; each datastream commits offsets"
                f" of the partitions that it copies; {min(datastream.name, other.name)} copies the"
                " partitions that both select"
            )
            return
