"""What holds for all datastreams that share tasks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.coordination.routing.mates import other_consumer_group
from mirror.errors import InvalidRequest
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import GROUP_ID, TASK_PREFIX
from mirror.model.load import impossible_limits


def check_group(datastream: Datastream, others: Sequence[Datastream]) -> None:
    """Lanes are named by group and partition: two sources in a group would share their names. Raises
    InvalidRequest."""
    mates = [one for one in others if one.group == datastream.group]
    for other in mates:
        if _route(other) != _route(datastream):
            raise InvalidRequest(
                f"datastreams of group {other.group} copy as {other.name} does: {_route(other)}",
                advice=f"give them the same clusters and topic names, or another {TASK_PREFIX}",
            )
    if bounds := impossible_limits(one.limits for one in (datastream, *mates)):
        least, most = bounds
        raise InvalidRequest(
            f"datastreams of group {datastream.group} share tasks: at least {least} and at most {most}"
            " are not possible",
            advice="of their limits the strictest count; give them limits that agree",
        )


def check_consumer_group(new: Datastream, others: Sequence[Datastream]) -> None:
    """It cannot change later. Raises InvalidRequest."""
    for other in others:
        theirs = other_consumer_group(new, other) if other.group == new.group else ""
        if theirs:
            raise InvalidRequest(
                f"datastreams of group {new.group} share tasks, and {other.name} commits its positions to"
                f" {GROUP_ID} {theirs}, not to {new.metadata[GROUP_ID]}",
                advice=f"give it {GROUP_ID} = {theirs}, or another {TASK_PREFIX}",
            )


def _route(datastream: Datastream) -> str:
    return f"from {datastream.source} to {datastream.destination} as {datastream.naming.template}"
