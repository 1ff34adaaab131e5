"""What separates files of definitions from a service: found by `headrace apply`, and carried out.

Everything is as of the look: a step carries the ETag that was read then, so that what has changed since is
refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from headrace.console.client import RestClient
from headrace.console.datastreams.manifests import Manifest
from headrace.console.resources import DATASTREAMS, path_of
from mirror.errors import HeadraceError, NotFound, StaleVersion, Unreachable

_NOT_OURS: Final = frozenset({"DELETING", "DAMAGED"})
_TRIES: Final = 3


class StepKind(StrEnum):
    """What is done with a datastream."""

    CHANGE = "change"
    CREATE = "create"
    DELETE = "delete"


@dataclass(frozen=True)
class PruneScope:
    """Whose datastreams are deleted when no file has them: of an owner, with labels in the metadata, or both.
    One that is damaged, or goes already, is nobody's here."""

    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def holds(self, found: Mapping[str, Any]) -> bool:
        """Whether it is among them."""
        metadata = found["metadata"]
        if found["status"] in _NOT_OURS or (self.owner and found["owner"] != self.owner):
            return False
        return all(metadata.get(key) == value for key, value in self.labels.items())


@dataclass(frozen=True)
class Step:
    """One datastream that is not as it is to be. `version`: the ETag that was read; `definition`: of a file,
    or of what is deleted; `plan`: what the service says that it would do."""

    kind: StepKind
    name: str
    version: str = ""
    definition: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """Steps in their order, what is as it is to be, and what cannot be: names with the reason."""

    steps: tuple[Step, ...]
    unchanged: tuple[str, ...]
    refused: Mapping[str, str]

    def of(self, kind: StepKind) -> list[Step]:
        """The steps of a kind."""
        return [step for step in self.steps if step.kind is kind]


def find_difference(
    client: RestClient, manifests: Sequence[Manifest], scope: PruneScope | None
) -> Difference:
    """Ask the service what each definition would change. `scope`: None: nothing is deleted.

    Raises Unreachable; what else is wrong with a definition is among `refused`.
    """
    steps, unchanged, refused = [], [], {}
    for one in manifests:
        try:
            step = _step_of(client, one)
        except Unreachable:
            raise
        except HeadraceError as error:
            refused[one.name] = f"{one.where}: {error}"
            continue
        if step is None:
            unchanged.append(one.name)
        else:
            steps.append(step)
    if scope is not None:
        steps += _deletions(client, {one.name for one in manifests}, scope)
    order = list(StepKind)
    steps.sort(key=lambda step: order.index(step.kind))
    return Difference(tuple(steps), tuple(unchanged), refused)


def _step_of(client: RestClient, wanted: Manifest) -> Step | None:
    """None: it is as it is to be. Raises HeadraceError for what the service would not take."""
    path, tries = path_of(wanted.name), _TRIES
    while True:
        tries -= 1
        try:
            version = client.version(path)
        except NotFound:
            plan = client.post(DATASTREAMS, wanted.definition, dry_run=True)
            return Step(StepKind.CREATE, wanted.name, definition=wanted.definition, plan=plan)
        try:
            plan = client.put(path, wanted.definition, version, dry_run=True)
        except StaleVersion:
            if not tries:
                raise
            continue
        if not plan["changes"]:
            return None
        return Step(StepKind.CHANGE, wanted.name, version, wanted.definition, plan)


def _deletions(client: RestClient, kept: set[str], scope: PruneScope) -> Iterable[Step]:
    for found in client.get(DATASTREAMS):
        if found["name"] not in kept and scope.holds(found):
            path = path_of(found["name"])
            present, version = client.get_with_version(path)
            if scope.holds(present):
                plan = client.delete(path, version, dry_run=True)
                yield Step(StepKind.DELETE, found["name"], version, present, plan)


def carry_out(client: RestClient, steps: Sequence[Step], reason: str, requested_by: str) -> dict[str, str]:
    """Do the steps; what failed, by name, with the reason. Where nobody answers the rest is not tried."""
    failed: dict[str, str] = {}
    for number, step in enumerate(steps):
        try:
            _do(client, step, {"reason": reason, "requested_by": requested_by})
        except Unreachable as error:
            rest = {one.name: "not tried" for one in steps[number + 1 :]}
            return {**failed, step.name: f"nobody knows whether it was done: {error}", **rest}
        except HeadraceError as error:
            failed[step.name] = str(error)
    return failed


def _do(client: RestClient, step: Step, cause: Mapping[str, str]) -> None:
    if step.kind is StepKind.CREATE:
        client.create(DATASTREAMS, step.definition, **cause)
    elif step.kind is StepKind.CHANGE:
        client.put(path_of(step.name), step.definition, step.version, **cause)
    else:
        client.delete(path_of(step.name), step.version, **cause)
