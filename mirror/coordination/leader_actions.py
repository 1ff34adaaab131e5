"""What the leader does about one picture of the world, as a list of actions. Pure.

Each action may be repeated, and the list may end after any of them: the next look at the world gives
what is left. The order matters only for that: a definition is removed after the plan without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror.coordination.planning import Decision, World
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.requests import Request
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, Halt
from mirror.model.datastreams.lifecycle import next_status
from mirror.model.datastreams.metadata import TTL_MS
from mirror.model.datastreams.pauses import without_ended
from mirror.model.identifiers import DatastreamName
from mirror.model.plan import Plan

_EXPIRED: Final = "its time to live is over"
RETURN_GRACE_SECONDS: Final = 2.0
"""How long a new leader waits when most others are gone: it was ZooKeeper that was away, not they."""


@dataclass(frozen=True, slots=True)
class Change:
    """Store the definition in its new state. `why`: for the log; and for an event, if `is_told`."""

    datastream: Datastream
    why: str
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class Publish:
    """Put the decision's plan in force and tell of it."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Answer:
    """Take a request off the queue; the plan in force answers it as `sentence` says. `failure`: why it
    cannot."""

    request: Request
    failure: Exception | None = None
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a definition that nothing runs for any more."""

    name: DatastreamName


Action = Change | Publish | Answer | Remove


def status_change(
    one: Datastream, datastreams: Sequence[Datastream], plan: Plan, now_ms: int
) -> Change | None:
    """The state into which only the leader carries one of the datastreams; None: it stays as it is."""
    if one.status is DatastreamStatus.INITIALIZING:
        return _change(one, "activate", "it is new")
    if one.status is DatastreamStatus.STOPPING and not _is_planned(one, datastreams, plan):
        return _change(one, "settle", "no task of it is left")
    if _is_expired(one, now_ms):
        expired = replace(one, halt=Halt(_EXPIRED, now_ms, TTL_MS))
        return replace(_change(expired, "delete", f"deleted the datastream: {_EXPIRED}"), is_told=True)
    ended = without_ended(one, now_ms)
    return Change(ended.datastream, ended.sentence, is_told=True) if ended is not None else None


def _is_expired(datastream: Datastream, now_ms: int) -> bool:
    expires_ms = datastream.expires_ms
    is_there = datastream.status is not DatastreamStatus.DELETING
    return is_there and expires_ms is not None and expires_ms <= now_ms


def after(datastreams: Iterable[Datastream], changes: Iterable[Change]) -> tuple[Datastream, ...]:
    """The datastreams once the changes are stored."""
    changed = {one.datastream.name: one.datastream for one in changes}
    return tuple(changed.get(one.name, one) for one in datastreams)


def is_over(one: Datastream, world: World, decision: Decision) -> bool:
    """Whether a datastream is to be removed, and nothing runs for it once the decision is in force."""
    plan = decision.plan or world.plan
    return one.status is DatastreamStatus.DELETING and not _is_planned(one, world.datastreams, plan)


def leader_actions(
    world: World, changes: Sequence[Change], decision: Decision, over: Sequence[DatastreamName]
) -> tuple[Action, ...]:
    """Everything to do, in order. `world` and `decision` see the datastreams as the changes leave them;
    `over`: those of which `is_over` holds."""
    return (
        *changes,
        *([Publish(decision)] if decision.plan is not None else []),
        *(
            Answer(one, decision.impossible.get(one.identity), _answer_to(one, world, decision))
            for one in world.requests
            if one.identity not in decision.postponed
        ),
        *(Remove(name) for name in over),
    )


def _answer_to(request: Request, world: World, decision: Decision) -> str:
    """What is true of the plan in force after the decision, also where a leader has published it that then
    broke off, so that nothing is left to change for this one."""
    if decision.plan is not None:
        return decision.sentence
    planned = decision.group_plans.get(request.group)
    why = f"; {'; '.join(planned.reasons)}" if planned is not None and planned.reasons else ""
    in_force = f"epoch {world.plan.epoch} is in force ({world.plan.reason})"
    return f"nothing more has to change{why}; {in_force}"


def is_too_early(plan: Plan, live: Sequence[LiveInstance], seconds_since_joining: float) -> bool:
    """Whether most instances of the plan are missing so soon after we came that they must be on their way:
    a plan now would take their tasks from them only to give them back."""
    owners = {name for name in plan.by_instance if name is not None}
    missing = owners - {one.name for one in live}
    return 2 * len(missing) > len(owners) > 1 and seconds_since_joining < RETURN_GRACE_SECONDS


def _change(datastream: Datastream, action: str, why: str) -> Change:
    return Change(replace(datastream, status=next_status(datastream, action)), why)


def _is_planned(datastream: Datastream, datastreams: Sequence[Datastream], plan: Plan) -> bool:
    """Whether the plan has something that only this one of the datastreams wants, or wanted."""
    others = [
        one
        for one in datastreams
        if one.group == datastream.group and one.name != datastream.name and one.status.has_tasks
    ]
    placements = plan.of_group(datastream.group)
    if not others:
        return bool(placements)
    topics = {partition.topic for placement in placements for partition in placement.partitions}
    return any(not any(other.selection.matches(topic) for other in others) for topic in topics)
