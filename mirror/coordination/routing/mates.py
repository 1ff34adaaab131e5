"""What datastreams that share tasks ask for and cannot both have, and what counts then. Pure.

A creation and a change are refused for it. Two that are made at the same moment know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import GROUP_ID
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.load import impossible_limits, joint_limits


def contradictions(datastreams: Sequence[Datastream]) -> Mapping[DatastreamName, str]:
    """Of each that contradicts an older one with which it shares tasks: in what, and what counts.
    `datastreams`: the older ones first."""
    groups: dict[GroupName, list[Datastream]] = {}
    for one in datastreams:
        groups.setdefault(one.group, []).append(one)
    found = {}
    for members in groups.values():
        for number, one in enumerate(members):
            said = [*_limits(one, members[:number], members), *_consumer_group(one, members[:number])]
            if said:
                found[one.name] = "; ".join(said)
    return found


def other_consumer_group(one: Datastream, mate: Datastream) -> str:
    """The `group.id` of the mate, where both give one and they differ; else empty."""
    mine, theirs = one.metadata.get(GROUP_ID), mate.metadata.get(GROUP_ID)
    return theirs if mine and theirs and mine != theirs else ""


def _limits(one: Datastream, older: Sequence[Datastream], members: Sequence[Datastream]) -> Iterator[str]:
    """Each alone is possible: only of two of them the least can be above the most."""
    for other in older:
        if bounds := impossible_limits((one.limits, other.limits)):
            least, most = bounds
            counts = joint_limits(each.limits for each in members)
            yield (
                f"it shares tasks with {other.name}, and at least {least} and at most {most} are not"
                f" possible: of their limits the strictest count, at most {counts.max_tasks}"
            )
            return


def _consumer_group(one: Datastream, older: Sequence[Datastream]) -> Iterator[str]:
    for other in older:
        if theirs := other_consumer_group(one, other):
            yield (
                f"it shares tasks with {other.name}, which commits its positions to {GROUP_ID} {theirs}: each"
                f" commits what it copies to its own, of what both select {min(one.name, other.name)}"
            )
            return
