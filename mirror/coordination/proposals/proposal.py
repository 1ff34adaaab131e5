"""A proposed plan: its changes to the current plan, and the inputs that it depends on. Pure."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mirror.coordination.plan_decision import FleetState, groups_of
from mirror.coordination.stores import node_codec
from mirror.coordination.stores.definition_document import to_document
from mirror.coordination.stores.requests import ApplyRequest, cause_of
from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import Epoch, GroupName, InstanceName, TaskName
from mirror.model.plan import GroupPlan, Plan, TaskPlacement
from mirror.model.reasons import legible
from mirror.model.topics import TopicPartition
from mirror.wording import counted

LASTS_MS: Final = 3_600_000
_LONGEST: Final = 1_000


@dataclass(frozen=True)
class Proposal:
    """A proposed plan for one group.

    `epoch`: epoch of the current plan. `placed`: new or changed tasks. `gone`: removed tasks. `definitions`,
    `wanted`: inputs of the plan. `shown`: description for REST. `asked_by`: principal who requested to apply
    the proposal, or None.
    """

    group: GroupName
    epoch: Epoch
    definitions: str
    wanted: frozenset[TopicPartition]
    placed: tuple[TaskPlacement, ...]
    gone: frozenset[TaskName]
    expires_ms: int
    shown: Mapping[str, Any]
    asked_by: str | None = None


def propose(
    fleet: FleetState, group: GroupName, plan: Plan, shown: Mapping[str, Any], now_ms: int
) -> Proposal:
    """Return a proposal that contains the changes from the current plan to `plan`.

    `shown`: description for REST, which must be JSON-ready.
    """
    before = fleet.plan.by_task
    placed = tuple(task for task in plan.tasks if before.get(task.task) != task)
    removed = frozenset(before.keys() - plan.by_task.keys())
    wanted = fleet.wishes.partitions.get(group) or frozenset()
    made_of = fingerprint(groups_of(fleet.datastreams).get(group, ()))
    return Proposal(group, fleet.plan.epoch, made_of, wanted, placed, removed, now_ms + LASTS_MS, shown)


def fingerprint(members: Sequence[Datastream]) -> str:
    """Return a hash of the definitions of a group."""
    documents = [to_document(member) for member in sorted(members, key=lambda member: member.name)]
    return hashlib.sha256(json.dumps(documents, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def changes_since(
    proposal: Proposal, plan: Plan, members: Sequence[Datastream], wanted: frozenset[TopicPartition] | None
) -> list[str]:
    """Return a message for each input that has changed since the proposal was computed.

    `wanted`: current partitions, None if unknown.
    """
    found = []
    if plan.epoch != proposal.epoch:
        found.append(f"current plan: epoch {plan.epoch}, expected {proposal.epoch} ({plan.reason})")
    if fingerprint(members) != proposal.definitions:
        found.append(f"the definitions of {proposal.group} have changed")
    if wanted is not None and wanted != proposal.wanted:
        more, fewer = len(wanted - proposal.wanted), len(proposal.wanted - wanted)
        found.append(f"partitions of {proposal.group} have changed: {more} more, {fewer} fewer")
    return found


def applied(fleet: FleetState, proposal: Proposal, request: ApplyRequest, now_ms: int) -> Plan | list[str]:
    """Return the current plan with the proposal applied, or the reasons why it cannot be applied."""
    group = proposal.group
    wanted = fleet.wishes.partitions.get(group)
    found = changes_since(proposal, fleet.plan, groups_of(fleet.datastreams).get(group, ()), wanted)
    if wanted is None:
        found.append(f"the partitions of {group} are currently unknown")
    here = {instance.name for instance in fleet.live if not instance.is_leaving}
    homes = {placement.instance for placement in proposal.placed if placement.instance is not None}
    if missing := sorted(homes - here):
        found.append(f"no longer available for tasks: {', '.join(missing)}")
    if found:
        return found
    tasks = {**fleet.plan.by_task, **{placement.task: placement for placement in proposal.placed}}
    left = [placement for task, placement in tasks.items() if task not in proposal.gone]
    in_order = tuple(sorted(left, key=lambda placement: (placement.group, placement.task)))
    reason = cause_of(request)
    return replace(
        fleet.plan, epoch=Epoch(proposal.epoch + 1), tasks=in_order, created_ms=now_ms, reason=reason
    )


def answer_shown(proposal: Proposal) -> GroupPlan:
    """Parse the displayed proposal for the reasons of its tasks and moves.

    Values in an unknown format are omitted.
    """
    reasons = {}
    for move in _listed(proposal.shown.get("moves")):
        with contextlib.suppress(InvalidRequest, LookupError, TypeError, AttributeError):
            reasons[TopicPartition.parse(move["partition"])] = legible(move["reason"].strip())
    return GroupPlan(
        tasks={placement.task: placement.partitions for placement in proposal.placed},
        loads_bytes_per_second={},
        required_tasks=0,
        reasons=tuple(
            legible(reason) for reason in _listed(proposal.shown.get("reasons")) if isinstance(reason, str)
        ),
        move_reasons=reasons,
    )


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def to_stored(proposal: Proposal) -> dict[str, Any]:
    """Return a proposed plan as a JSON object."""
    return {
        "group": proposal.group,
        "epoch": proposal.epoch,
        "definitions": proposal.definitions,
        "wanted": node_codec.encode_partitions(proposal.wanted),
        "placed": [
            [
                placement.task,
                placement.group,
                placement.instance,
                node_codec.encode_partitions(placement.partitions),
            ]
            for placement in proposal.placed
        ],
        "gone": sorted(proposal.gone),
        "expires_ms": proposal.expires_ms,
        "shown": dict(proposal.shown),
        "asked_by": proposal.asked_by,
    }


def from_stored(document: Mapping[str, Any]) -> Proposal:
    """Parse a stored proposal. Raises InvalidRequest, ValueError."""
    placed = bounds.sequence("tasks", bounds.field(document, "placed"), node_codec.MOST_PARTITIONS)
    removed = bounds.sequence("tasks", bounds.field(document, "gone"), node_codec.MOST_PARTITIONS)
    asked_by = document.get("asked_by")
    return Proposal(
        GroupName(_name("the group", bounds.field(document, "group"))),
        Epoch(bounds.integer("the epoch", bounds.field(document, "epoch"), 0, 2**53)),
        _name("the definitions", bounds.field(document, "definitions")),
        _partitions(bounds.field(document, "wanted")),
        tuple(_placement(*_four(entry)) for entry in placed),
        frozenset(TaskName(_name("a task", name)) for name in removed),
        bounds.integer("the expiry", bounds.field(document, "expires_ms"), 0, bounds.LARGEST_MS),
        bounds.mapping("the presentation", bounds.field(document, "shown")),
        None if asked_by is None else _name("the applying user", asked_by),
    )


def _placement(task: object, group: object, instance: object, ranges: object) -> TaskPlacement:
    home = InstanceName(_name("an instance", instance)) if instance is not None else None
    names = TaskName(_name("a task", task)), GroupName(_name("a group", group))
    return TaskPlacement(*names, home, _partitions(ranges))


def _partitions(value: object) -> frozenset[TopicPartition]:
    ranges = bounds.mapping("partitions", value)
    for topic, numbers in ranges.items():
        bounds.text(f"partitions of {topic}", numbers, node_codec.LARGEST_DOCUMENT)
    return node_codec.decode_partitions(ranges)


def _name(label: str, value: object) -> str:
    return bounds.text(label, value, _LONGEST)


def _four(value: object) -> list[Any]:
    found = bounds.sequence("a task", value, 4)
    if len(found) < 4:
        raise InvalidRequest(f"a task must have 4 values, not {counted(len(found), 'value')}")
    return found
