"""Rules for all datastreams that share tasks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.coordination.routes.mates import other_consumer_group
from mirror.errors import InvalidRequest
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import GROUP_ID, TASK_PREFIX
from mirror.model.load import impossible_limits
from mirror.wording import counted


def check_group(datastream: Datastream, others: Sequence[Datastream]) -> None:
    """Check the clusters and task limits of the members of a group. Raises InvalidRequest.

    All members must have the same source, because lanes are identified by group and partition.
    """
    members = [member for member in others if member.group == datastream.group]
    for other in members:
        if _route(other) != _route(datastream):
            raise InvalidRequest(
                f"all datastreams of group {other.group} must copy {_route(other)}, like {other.name}",
                advice=f"use the same clusters and topic names, or another {TASK_PREFIX}",
            )
    if bounds := impossible_limits(member.limits for member in (datastream, *members)):
        least, most = bounds
        raise InvalidRequest(
            f"datastreams of group {datastream.group} share tasks, but together require at least {least}"
            f" and at most {counted(most, 'task')}",
            advice="the strictest limits of all of them apply; change min_tasks or max_tasks",
        )


def check_consumer_group(new: Datastream, others: Sequence[Datastream]) -> None:
    """Check the consumer group of a new member. Raises InvalidRequest.

    The consumer group cannot be changed later.
    """
    for other in others:
        theirs = other_consumer_group(new, other) if other.group == new.group else ""
        if theirs:
            raise InvalidRequest(
                f"datastreams of group {new.group} share tasks, but {other.name} commits its positions to"
                f" {GROUP_ID} {theirs} instead of {new.metadata[GROUP_ID]}",
                advice=f"set {GROUP_ID} = {theirs}, or another {TASK_PREFIX}",
            )


def _route(datastream: Datastream) -> str:
    return f"from {datastream.source} to {datastream.destination} as {datastream.naming.template}"
