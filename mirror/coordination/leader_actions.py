"""Actions of the leader for one snapshot of the fleet. Pure.

All actions are idempotent. If the leader is interrupted, the next snapshot yields the remaining actions. The
order of the actions matters in only one case: a plan without the datastream must be published before the
definition is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror.coordination.plan_decision import Decision, FleetState
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.requests import Request
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, Halt, activated, next_status
from mirror.model.datastreams.metadata import TTL_MS
from mirror.model.datastreams.pauses import without_ended
from mirror.model.identifiers import DatastreamName
from mirror.model.plan import Plan

_EXPIRED: Final = "its time to live has expired"
RETURN_GRACE_SECONDS: Final = 2.0
"""Seconds that a new leader waits if most instances are missing: probably only the store failed."""


@dataclass(frozen=True, slots=True)
class StoreDefinition:
    """Action: store a definition with a new status. `why`: reason to log. `is_told`: also publish the reason
    as an event."""

    datastream: Datastream
    why: str
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """Action: publish and report the plan of a decision."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class CompleteRequest:
    """Action: remove an answered request from the queue.

    `sentence`: result of the request under the current plan. `failure`: error if the request failed.
    """

    request: Request
    failure: Exception | None = None
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class RemoveDefinition:
    """Action: remove the definition of a deleted datastream that no longer has tasks."""

    name: DatastreamName


Action = StoreDefinition | PublishPlan | CompleteRequest | RemoveDefinition


def status_change(
    datastream: Datastream, datastreams: Sequence[Datastream], plan: Plan, now_ms: int
) -> StoreDefinition | None:
    """Return the status change that the leader must make for a datastream, or None."""
    if datastream.status is DatastreamStatus.INITIALIZING:
        return StoreDefinition(activated(datastream), "new datastream")
    if datastream.status is DatastreamStatus.STOPPING and not _is_planned(datastream, datastreams, plan):
        return _change(datastream, "settle", "no remaining tasks")
    if _is_expired(datastream, now_ms):
        expired = replace(datastream, halt=Halt(_EXPIRED, now_ms, TTL_MS))
        return replace(_change(expired, "delete", f"deleted the datastream: {_EXPIRED}"), is_told=True)
    ended = without_ended(datastream, now_ms)
    return StoreDefinition(ended.datastream, ended.sentence, is_told=True) if ended is not None else None


def _is_expired(datastream: Datastream, now_ms: int) -> bool:
    expires_ms = datastream.expires_ms
    is_there = datastream.status is not DatastreamStatus.DELETING
    return is_there and expires_ms is not None and expires_ms <= now_ms


def after(datastreams: Iterable[Datastream], changes: Iterable[StoreDefinition]) -> tuple[Datastream, ...]:
    """Return the datastreams after the status changes."""
    changed = {change.datastream.name: change.datastream for change in changes}
    return tuple(changed.get(datastream.name, datastream) for datastream in datastreams)


def is_over(datastream: Datastream, fleet: FleetState, decision: Decision) -> bool:
    """Return whether a datastream is being deleted and has no tasks in the plan of the decision."""
    plan = decision.plan or fleet.plan
    return datastream.status is DatastreamStatus.DELETING and not _is_planned(
        datastream, fleet.datastreams, plan
    )


def leader_actions(
    fleet: FleetState, changes: Sequence[StoreDefinition], decision: Decision, over: Sequence[DatastreamName]
) -> tuple[Action, ...]:
    """Return all actions that the leader must execute, in order.

    `fleet`, `decision`: computed with `changes` applied. `over`: datastreams for which `is_over` returns
    True.
    """
    return (
        *changes,
        *([PublishPlan(decision)] if decision.plan is not None else []),
        *(
            CompleteRequest(
                request, decision.impossible.get(request.identity), _answer_to(request, fleet, decision)
            )
            for request in fleet.requests
            if request.identity not in decision.postponed
        ),
        *(RemoveDefinition(name) for name in over),
    )


def _answer_to(request: Request, fleet: FleetState, decision: Decision) -> str:
    """Return the result of a request in one sentence, according to the decision.

    The plan may be unchanged, because an earlier leader may have published it before it failed.
    """
    if decision.plan is not None:
        return decision.sentence
    planned = decision.group_plans.get(request.group)
    why = f"; {'; '.join(planned.reasons)}" if planned is not None and planned.reasons else ""
    in_force = f"current plan: epoch {fleet.plan.epoch} ({fleet.plan.reason})"
    return f"no further change needed{why}; {in_force}"


def is_too_early(plan: Plan, live: Sequence[LiveInstance], seconds_since_joining: float) -> bool:
    """Return whether the leader must wait for missing instances before it publishes a new plan.

    Returns True if this instance has just joined and most instances with tasks are missing. The missing
    instances will probably reconnect soon, so a new plan would only move their tasks away and back.
    """
    owners = {name for name in plan.by_instance if name is not None}
    missing = owners - {instance.name for instance in live}
    return 2 * len(missing) > len(owners) > 1 and seconds_since_joining < RETURN_GRACE_SECONDS


def _change(datastream: Datastream, action: str, why: str) -> StoreDefinition:
    return StoreDefinition(replace(datastream, status=next_status(datastream, action)), why)


def _is_planned(datastream: Datastream, datastreams: Sequence[Datastream], plan: Plan) -> bool:
    """Return whether the plan contains topics that no other datastream of the group selects."""
    others = [
        member
        for member in datastreams
        if member.group == datastream.group and member.name != datastream.name and member.status.has_tasks
    ]
    placements = plan.of_group(datastream.group)
    if not others:
        return bool(placements)
    topics = {partition.topic for placement in placements for partition in placement.partitions}
    return any(not any(other.selection.matches(topic) for other in others) for topic in topics)
