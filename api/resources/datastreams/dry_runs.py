"""Evaluates changes and rebalances without executing them.

The leader computes dry runs, because only the leader has current loads; any instance accepts the request.
Each kind of dry run defines how the leader computes the result, and how instances exchange the request and
the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from fastapi import Depends, Query
from fastapi.concurrency import run_in_threadpool

from api.fleet.all_instances import ask_leader
from api.fleet.dependencies import FleetDep, ServicesDep, SlowCallsDep
from api.fleet.questions import Fleet, FleetQuery, known_fields
from api.http.slow_calls import CallersSlowCalls
from api.resources.datastreams.datastream_changes import UpdatePlanAnswer
from api.resources.plan_answers import ProposalAnswer, RebalanceAnswer, shown_of
from api.resources.status import HEALTH, health_read
from api.services import Services
from mirror import errors
from mirror.control.commands import ChangePauses, ChangeStatus, CreateDatastream, MovePartitions
from mirror.coordination.effects import stops_in_words, waiting_records
from mirror.coordination.proposals.proposal import propose
from mirror.coordination.proposals.proposal_store import StoredProposal
from mirror.coordination.stores import definition_document, requests
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest
from mirror.errors import HeadraceError, NothingStored
from mirror.instance.fleet_planner import FleetPlanner, UpdatePreview
from mirror.jobs.stored_lanes import StoredLanes
from mirror.loggers import get_logger
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName, InstanceName, TaskName
from mirror.model.plan import Plan
from mirror.model.reasons import legible, reason_of
from mirror.model.topics import TopicPartition
from mirror.wording import first_few


async def _dry_runs(services: ServicesDep, fleet: FleetDep, slow_calls: SlowCallsDep) -> DryRuns:
    return DryRuns(services, fleet, slow_calls)


_log = get_logger(__name__)
_NOTHING: Final = StoredLanes({}, {})


def backlogs_of(preview: UpdatePreview, services: Services) -> Mapping[LaneKey, int]:
    """Return the number of waiting records for each lane that a change would start.

    Lanes whose source or stored progress is unavailable are omitted, because a dry run must not fail if they
    are.
    """
    stored: dict[tuple[ClusterRef, GroupName], StoredLanes | None] = {}
    found = {}
    for key, position in preview.positions.items():
        spec = preview.starting[key]
        place = spec.destination, key.group
        if place not in stored:
            stored[place] = _stored(services, *place)
        lanes = stored[place]
        if lanes is None:
            continue
        progress, name = lanes.lanes.get(key), spec.destination_topic
        is_own = progress is not None and progress.is_of(
            name, lanes.topic_ids.get(name) or b"", spec.restart_ms
        )
        checkpoint = progress.next_offset if progress is not None and is_own else None
        waiting = waiting_records(spec, checkpoint, position)
        if waiting is not None:
            found[key] = waiting
    return found


def _stored(services: Services, destination: ClusterRef, group: GroupName) -> StoredLanes | None:
    try:
        return services.progress(destination, group)
    except NothingStored:
        return _NOTHING
    except HeadraceError as error:
        _log.info("cannot read checkpoints", cluster=destination, group=group, reason=reason_of(error))
        return None


_NAMES_SHOWN: Final = 10


def remarks(request: MoveRequest, preview: UpdatePreview) -> Iterator[str]:
    """Yield a remark for each requested partition whose lane does not move."""
    before, after = (_homes(state.plan, request.group) for state in (preview.before, preview.after))
    missing = request.partitions - after.keys()
    settled = {
        partition
        for partition in request.partitions & after.keys()
        if before.get(partition) == after[partition]
    }
    changed = {effect.key.partition for effect in preview.effects}
    if missing and missing == request.partitions:
        yield f"no task of {request.group} contains any of these partitions: the move would fail"
    elif missing:
        yield f"no task contains {_names(missing)}: ignored"
    if settled:
        yield f"{_names(settled)}: already on {request.host}"
    if resting := request.partitions - missing - settled - changed:
        yield f"{_names(resting)}: currently not copied; only the task changes"


def _homes(plan: Plan, group: GroupName) -> dict[TopicPartition, tuple[TaskName, InstanceName | None]]:
    return {
        partition: (placement.task, placement.instance)
        for placement in plan.of_group(group)
        for partition in placement.partitions
    }


def _names(partitions: Collection[TopicPartition]) -> str:
    return first_few([str(partition) for partition in sorted(partitions)], _NAMES_SHOWN)


DRY_RUN: Final = "dry-run"
"""Name of the dry-run query, sent to the leader."""
_MOST_DEFINITIONS: Final = 100_000
_Answer = TypeVar("_Answer", RebalanceAnswer, ProposalAnswer, UpdatePlanAnswer)


@dataclass(frozen=True)
class Reply(Generic[_Answer]):
    """Response of the leader to a dry run: the result, or the error that it raised."""

    answer: _Answer | None
    refusal: errors.HeadraceError | None = None


class Basis(NamedTuple):
    """Loads on which a dry run is based. `gap`: the reason if they are not the leader's loads, otherwise
    empty."""

    planner: FleetPlanner
    gap: str = ""


@dataclass(frozen=True)
class DryRun(Generic[_Answer]):
    """A kind of dry run, such as a rebalance or an update. `compute`: function that computes the result from
    the request, or from the changed definitions."""

    name: str
    model: type[_Answer]
    compute: Callable[[Services, Basis, Any], _Answer]

    def document(self, requested: RebalanceRequest | MoveRequest | tuple[Datastream, ...]) -> dict[str, Any]:
        """Return the query that asks the leader for a dry run."""
        if isinstance(requested, tuple):
            definitions = [definition_document.to_document(datastream) for datastream in requested]
            return {"kind": self.name, "definitions": definitions}
        return {"kind": self.name, "request": requests.to_document(requested)}

    def read(self, value: Any) -> Reply[_Answer] | None:
        """Parse the leader's response to a dry run; None if the instance is no longer the leader.

        Unknown fields are dropped, because the leader may run a newer version. Raises ValueError,
        InvalidRequest.
        """
        if value is None:
            return None
        found = bounds.mapping("the response", value)
        if "refused" in found:
            refused = bounds.mapping("the refusal", found["refused"])
            kind, message, advice = (
                bounds.text(name, bounds.field(refused, name), bounds.LONGEST_REASON)
                for name in ("kind", "message", "advice")
            )
            return Reply(None, (errors.kind_named(kind) or errors.HeadraceError)(message, advice=advice))
        return Reply(self.model.model_validate(known_fields(self.model, bounds.field(found, "answer"))))


def told_dry_run(services: Services, requested: Any) -> Any:
    """Run a dry run for another instance, which has checked the caller's permissions, and return the result
    as JSON. Returns None unless this instance is the leader. Raises InvalidRequest."""
    document = bounds.mapping("the query", requested)
    kind = _KINDS.get(bounds.text("the kind", bounds.field(document, "kind"), bounds.LONGEST_NAME))
    if kind is None:
        raise errors.InvalidRequest("unknown kind of dry run: the requesting instance runs another version")
    if not services.status.is_leading:
        return None
    try:
        answer = kind.compute(services, Basis(services.previews), _requested(document))
    except errors.HeadraceError as error:
        known = next(kind.__name__ for kind in type(error).__mro__ if errors.kind_named(kind.__name__))
        message, advice = legible(error.message), legible(error.advice)
        return {"refused": {"kind": known, "message": message, "advice": advice}}
    return {"answer": answer.model_dump(mode="json")}


def _requested(document: Mapping[str, Any]) -> requests.PlacementRequest | tuple[Datastream, ...]:
    if "request" in document:
        return requests.from_document("", bounds.mapping("the request", document["request"]))
    found = bounds.sequence("definitions", bounds.field(document, "definitions"), _MOST_DEFINITIONS)
    return tuple(
        definition_document.from_document(bounds.mapping("a definition", document)) for document in found
    )


def _rebalance(_: Services, basis: Basis, request: RebalanceRequest) -> RebalanceAnswer:
    return _marked(RebalanceAnswer.from_decision(basis.planner.preview(request)), basis)


def _plan(services: Services, basis: Basis, request: RebalanceRequest) -> ProposalAnswer:
    """Store the changes of a rebalance as a proposed plan for an hour, and return them."""
    state, decision = basis.planner.preview_with_state(request)
    plan, group = decision.plan or state.plan, request.group
    shown = shown_of(decision, group, len(plan.of_group(group)))
    if basis.gap:
        shown |= {"reasons": [*shown["reasons"], basis.gap], "loads_from": "stored"}
    proposal = propose(state, group, plan, shown, services.clock.now_ms())
    identity = services.proposals.add(proposal)
    return ProposalAnswer.from_stored(identity, StoredProposal(identity, proposal, 0), [])


def _move(_: Services, basis: Basis, request: MoveRequest) -> UpdatePlanAnswer:
    preview = basis.planner.preview_move(request)
    return _marked(UpdatePlanAnswer.from_preview(preview, {}, list(remarks(request, preview))), basis)


def _change(services: Services, basis: Basis, after: tuple[Datastream, ...]) -> UpdatePlanAnswer:
    preview = basis.planner.preview_update(after)
    backlogs, stops = backlogs_of(preview, services), stops_in_words(preview.effects)
    return _marked(UpdatePlanAnswer.from_preview(preview, backlogs, stops), basis)


_Marked = TypeVar("_Marked", RebalanceAnswer, UpdatePlanAnswer)


def _marked(answer: _Marked, basis: Basis) -> _Marked:
    if not basis.gap:
        return answer
    return answer.model_copy(update={"reasons": [*answer.reasons, basis.gap], "loads_from": "stored"})


REBALANCE: Final = DryRun("rebalance", RebalanceAnswer, _rebalance)
PLAN: Final = DryRun("plan", ProposalAnswer, _plan)
MOVE: Final = DryRun("move", UpdatePlanAnswer, _move)
CHANGE: Final = DryRun("change", UpdatePlanAnswer, _change)
_KINDS: Final[Mapping[str, DryRun[Any]]] = {kind.name: kind for kind in (REBALANCE, PLAN, MOVE, CHANGE)}
_LEADER_SECONDS: Final = 20.0
"""Time to wait for the leader's result; clients wait longer."""
Change = tuple[Datastream | None, Datastream]
"""A definition before and after a change; None before its creation."""


@dataclass(frozen=True)
class DryRuns:
    """Runs the dry runs of one request, on the leader if possible.

    If the leader does not respond, this instance computes the result with the loads that a new leader would
    start with, and the result says so. The functions that callers pass in check the request; dry runs raise
    the errors of these functions, and Unreachable.
    """

    services: Services
    fleet: Fleet
    slow_calls: CallersSlowCalls

    async def rebalance(self, request: Callable[[], RebalanceRequest]) -> RebalanceAnswer:
        """Return the effect of a rebalance."""
        return await self._computed(REBALANCE, await run_in_threadpool(request))

    async def plan(self, request: Callable[[], RebalanceRequest]) -> ProposalAnswer:
        """Return the effect of a rebalance, and store it as a proposed plan for an hour."""
        return await self._computed(PLAN, await run_in_threadpool(request))

    async def move(self, command: Callable[[], MovePartitions]) -> UpdatePlanAnswer:
        """Return the effect of a move in the current state."""

        def checked() -> tuple[Datastream, MoveRequest]:
            requested, control = command(), self.services.control
            return control.get(requested.name), control.move_request_of(requested)

        datastream, request = await self.slow_calls.run(checked)
        return (await self._computed(MOVE, request)).about([(datastream, datastream)])

    async def command(
        self, command: Callable[[], CreateDatastream | ChangeStatus | ChangePauses]
    ) -> UpdatePlanAnswer:
        """Return the effect of a command on a datastream."""
        return await self.changes(lambda: [self.services.control.expected(command())])

    async def changes(
        self, changes: Callable[[], Sequence[Change]], group: GroupName | None = None
    ) -> UpdatePlanAnswer:
        """Return the effect of changed definitions: of one datastream, or of a group."""
        found = await self.slow_calls.run(changes)
        answer = await self._computed(CHANGE, tuple(after for _, after in found))
        return answer.about(found, group)

    async def _computed(
        self, kind: DryRun[_Answer], requested: RebalanceRequest | MoveRequest | tuple[Datastream, ...]
    ) -> _Answer:
        services, gap = self.services, ""
        if not services.status.is_leading:
            answer, gap = await self._from_leader(kind, requested)
            if answer is not None:
                return answer

        def compute() -> _Answer:
            planner = services.previews.with_stored_loads() if gap else services.previews
            return kind.compute(services, Basis(planner, gap), requested)

        return await self.slow_calls.run(compute)

    async def _from_leader(
        self, kind: DryRun[_Answer], requested: RebalanceRequest | MoveRequest | tuple[Datastream, ...]
    ) -> tuple[_Answer | None, str]:
        """Return the leader's result of a dry run, or the reason why the leader did not return one. Raises
        the errors of the leader."""
        live = await run_in_threadpool(self.services.live)
        leader = self.services, self.fleet, live
        # A short query first, so that a frozen leader does not exhaust the patience of the caller.
        pulse = await ask_leader(*leader, FleetQuery(HEALTH), lambda: None, health_read)
        reason = pulse.reason
        if pulse.value is not None:
            query = FleetQuery(DRY_RUN, document=kind.document(requested), deadline_seconds=_LEADER_SECONDS)
            text = await ask_leader(*leader, query, lambda: None, kind.read)
            if text.value is not None:
                if text.value.refusal is not None:
                    raise text.value.refusal
                return text.value.answer, ""
            reason = text.reason
        return None, f"computed with the stored loads, because the leader did not respond: {reason}"


DryRunsDep = Annotated[DryRuns, Depends(_dry_runs)]
DryRunFlag = Annotated[bool, Query(description="dry run: return the lanes that would start, stop and move")]
SHOWN: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": UpdatePlanAnswer, "description": "Effect of the change; with `dry_run`."}
}
"""Response of a dry run, for endpoints that return a different status when they make a change."""
