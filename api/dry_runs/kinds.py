"""Kinds of dry runs: how the leader computes each, and its form between instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from api.dry_runs.backlogs import backlogs_of
from api.dry_runs.moves import remarks
from api.schemas.changes import UpdatePlanAnswer
from api.schemas.plans import RebalanceAnswer
from api.schemas.proposals import ProposalAnswer, shown_of
from api.services import Services
from mirror import errors
from mirror.coordination.effects import stops_in_words
from mirror.coordination.proposed.proposal import propose
from mirror.coordination.proposed.proposal_store import StoredProposal
from mirror.coordination.stores import requests
from mirror.coordination.stores.documents import definition
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest
from mirror.instance.world_view import WorldView
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream

DRY_RUN: Final = "dry-run"
"""Subject of the query to the leader."""
_MOST_DEFINITIONS: Final = 100_000
_Answer = TypeVar("_Answer", RebalanceAnswer, ProposalAnswer, UpdatePlanAnswer)


@dataclass(frozen=True)
class Reply(Generic[_Answer]):
    """Response of the leader: an answer, or the error that it raised."""

    answer: _Answer | None
    refusal: errors.HeadraceError | None = None


class Basis(NamedTuple):
    """Loads for a dry run. `gap`: why they are not the leader's; empty if they are."""

    view: WorldView
    gap: str = ""


@dataclass(frozen=True)
class DryRun(Generic[_Answer]):
    """A kind of dry run. `compute`: from the request to the leader, or the changed definitions."""

    name: str
    model: type[_Answer]
    compute: Callable[[Services, Basis, Any], _Answer]

    def document(self, requested: RebalanceRequest | MoveRequest | tuple[Datastream, ...]) -> dict[str, Any]:
        """Return the query to the leader."""
        if isinstance(requested, tuple):
            return {"kind": self.name, "definitions": [definition.to_document(one) for one in requested]}
        return {"kind": self.name, "request": requests.to_document(requested)}

    def read(self, value: Any) -> Reply[_Answer] | None:
        """Parse the response of the leader; None if it is not the leader. Unknown fields are dropped, because
        it may run a newer version. Raises ValueError, InvalidRequest."""
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
        answer = bounds.mapping("the answer", bounds.field(found, "answer"))
        known = {name: one for name, one in answer.items() if name in self.model.model_fields}
        return Reply(self.model.model_validate(known))


def told_dry_run(services: Services, requested: Any) -> Any:
    """Return a dry run to another instance, which has checked the permissions of the caller, as JSON; None
    unless this instance is the leader. Raises InvalidRequest."""
    document = bounds.mapping("the query", requested)
    kind = _KINDS.get(bounds.text("the kind", bounds.field(document, "kind"), bounds.LONGEST_NAME))
    if kind is None:
        raise errors.InvalidRequest("unknown kind of dry run: this instance runs another version")
    if not services.status.is_leading:
        return None
    try:
        answer = kind.compute(services, Basis(services.previews), _asked(document))
    except errors.HeadraceError as error:
        known = next(one.__name__ for one in type(error).__mro__ if errors.kind_named(one.__name__))
        message, advice = errors.legible(error.message), errors.legible(error.advice)
        return {"refused": {"kind": known, "message": message, "advice": advice}}
    return {"answer": answer.model_dump(mode="json")}


def _asked(document: Mapping[str, Any]) -> requests.PlacementRequest | tuple[Datastream, ...]:
    if "request" in document:
        return requests.from_document("", bounds.mapping("the request", document["request"]))
    found = bounds.sequence("definitions", bounds.field(document, "definitions"), _MOST_DEFINITIONS)
    return tuple(definition.from_document(bounds.mapping("a definition", one)) for one in found)


def _rebalance(_: Services, basis: Basis, request: RebalanceRequest) -> RebalanceAnswer:
    return _marked(RebalanceAnswer.from_decision(basis.view.preview(request)), basis)


def _plan(services: Services, basis: Basis, request: RebalanceRequest) -> ProposalAnswer:
    """Return the changes of a rebalance, stored for an hour as a proposal."""
    world, decision = basis.view.preview_world(request)
    plan, group = decision.plan or world.plan, request.group
    shown = shown_of(decision, group, len(plan.of_group(group)))
    if basis.gap:
        shown |= {"reasons": [*shown["reasons"], basis.gap], "loads_from": "stored"}
    proposal = propose(world, group, plan, shown, services.clock.now_ms())
    identity = services.proposals.add(proposal)
    return ProposalAnswer.from_stored(identity, StoredProposal(identity, proposal, 0), [])


def _move(_: Services, basis: Basis, request: MoveRequest) -> UpdatePlanAnswer:
    preview = basis.view.preview_move(request)
    return _marked(UpdatePlanAnswer.from_preview(preview, {}, list(remarks(request, preview))), basis)


def _change(services: Services, basis: Basis, after: tuple[Datastream, ...]) -> UpdatePlanAnswer:
    preview = basis.view.preview_update(after)
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
_KINDS: Final[Mapping[str, DryRun[Any]]] = {one.name: one for one in (REBALANCE, PLAN, MOVE, CHANGE)}
