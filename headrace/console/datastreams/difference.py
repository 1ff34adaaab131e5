"""Computes and applies the differences between definition files and a service, for `headrace apply`.

Each step sends the ETag of the compared version. The service rejects the step if the datastream has changed
since then.
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
    """Kind of change that `headrace apply` makes, such as a creation."""

    CHANGE = "change"
    CREATE = "create"
    DELETE = "delete"


@dataclass(frozen=True)
class PruneScope:
    """Selection of the datastreams that `--prune` deletes if no file defines them: by owner, by labels, or
    both.

    Damaged datastreams, and those that are being deleted, are never selected.
    """

    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def holds(self, found: Mapping[str, Any]) -> bool:
        """Return whether the selection includes a datastream."""
        metadata = found["metadata"]
        if found["status"] in _NOT_OURS or (self.owner and found["owner"] != self.owner):
            return False
        return all(metadata.get(key) == value for key, value in self.labels.items())


@dataclass(frozen=True)
class DatastreamChange:
    """A change of one datastream.

    `version`: ETag of the compared version. `definition`: definition in the file, or the current definition
    for a deletion. `plan`: result of the dry run.
    """

    kind: StepKind
    name: str
    version: str = ""
    definition: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DatastreamDifference:
    """Differences between files and service: changes in their order of execution, names of unchanged
    datastreams, and the rejected datastreams with reasons."""

    steps: tuple[DatastreamChange, ...]
    unchanged: tuple[str, ...]
    refused: Mapping[str, str]

    def of(self, kind: StepKind) -> list[DatastreamChange]:
        """Return all changes of one kind, such as deletions."""
        return [step for step in self.steps if step.kind is kind]


def find_difference(
    client: RestClient, manifests: Sequence[Manifest], scope: PruneScope | None
) -> DatastreamDifference:
    """Send a dry run of each definition, and return the changes that the definitions require.

    `scope`: datastreams that may be deleted, or None.

    Raises Unreachable; other errors are returned in `refused`.
    """
    steps, unchanged, refused = [], [], {}
    for manifest in manifests:
        try:
            step = _step_of(client, manifest)
        except Unreachable:
            raise
        except HeadraceError as error:
            refused[manifest.name] = f"{manifest.where}: {error}"
            continue
        if step is None:
            unchanged.append(manifest.name)
        else:
            steps.append(step)
    if scope is not None:
        steps += _deletions(client, {manifest.name for manifest in manifests}, scope)
    order = list(StepKind)
    steps.sort(key=lambda step: order.index(step.kind))
    return DatastreamDifference(tuple(steps), tuple(unchanged), refused)


def _step_of(client: RestClient, wanted: Manifest) -> DatastreamChange | None:
    """Return the change that makes a datastream match its definition, or None. Raises HeadraceError if the
    service rejects it."""
    path, tries = path_of(wanted.name), _TRIES
    while True:
        tries -= 1
        try:
            version = client.version(path)
        except NotFound:
            plan = client.post(DATASTREAMS, wanted.definition, dry_run=True)
            return DatastreamChange(StepKind.CREATE, wanted.name, definition=wanted.definition, plan=plan)
        try:
            plan = client.put(path, wanted.definition, version, dry_run=True)
        except StaleVersion:
            if not tries:
                raise
            continue
        if not plan["changes"]:
            return None
        return DatastreamChange(StepKind.CHANGE, wanted.name, version, wanted.definition, plan)


def _deletions(client: RestClient, kept: set[str], scope: PruneScope) -> Iterable[DatastreamChange]:
    for found in client.get(DATASTREAMS):
        if found["name"] not in kept and scope.holds(found):
            path = path_of(found["name"])
            present, version = client.get_with_version(path)
            if scope.holds(present):
                plan = client.delete(path, version, dry_run=True)
                yield DatastreamChange(StepKind.DELETE, found["name"], version, present, plan)


def carry_out(
    client: RestClient, steps: Sequence[DatastreamChange], reason: str, requested_by: str
) -> dict[str, str]:
    """Apply the changes, and map each failed datastream to its error. Stops if the service becomes
    unreachable."""
    failed: dict[str, str] = {}
    for number, step in enumerate(steps):
        try:
            _do(client, step, {"reason": reason, "requested_by": requested_by})
        except Unreachable as error:
            rest = {step.name: "not tried" for step in steps[number + 1 :]}
            return {**failed, step.name: f"outcome unknown: {error}", **rest}
        except HeadraceError as error:
            failed[step.name] = str(error)
    return failed


def _do(client: RestClient, step: DatastreamChange, cause: Mapping[str, str]) -> None:
    if step.kind is StepKind.CREATE:
        client.create(DATASTREAMS, step.definition, **cause)
    elif step.kind is StepKind.CHANGE:
        client.put(path_of(step.name), step.definition, step.version, **cause)
    else:
        client.delete(path_of(step.name), step.version, **cause)
