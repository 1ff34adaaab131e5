"""`headrace apply`: create, change and delete datastreams to match files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.commands.calls import CallOptions, CauseOptions
from headrace.commands.datastreams.wait_options import WaitOptions
from headrace.console.terminal import complain, console, print_json
from headrace.errors import EXIT_FAILED

if TYPE_CHECKING:
    from headrace.console.datastreams.difference import DatastreamChange, DatastreamDifference, PruneScope

EXIT_DIFFERS: Final = 3
_WOULD: Final = {"change": "would change", "create": "would be created", "delete": "would be deleted"}


@dataclass(frozen=True)
class _DeletionWait(WaitOptions):
    """Options of `headrace apply` for waiting until datastreams are deleted."""

    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Wait until deletions are complete; incomplete deletions count as failed."
        ),
    ] = False


def apply(
    files: Annotated[
        list[str],
        typer.Option(
            "--file", "-f", help="YAML or JSON file, a folder of such files, or - for stdin; repeatable."
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Apply without confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show changes without applying them.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Show changes without applying them; exit 3 on any difference.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete datastreams not in any file; requires --owner or --label.")
    ] = False,
    owner: Annotated[str, typer.Option(help="Owner whose datastreams --prune may delete.")] = "",
    label: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE metadata of datastreams that --prune may delete; repeatable."),
    ] = None,
    cause: CauseOptions = CauseOptions(),
    waiting: _DeletionWait = _DeletionWait(),
    call: CallOptions = CallOptions(),
) -> None:
    """Create and change datastreams to match files.

    Shows the changes and asks for confirmation first. The change of a datastream that has been modified in
    the meantime is rejected. Exits with 0 if all datastreams match, 1 if a change failed or was rejected, 2
    on wrong usage; with --check, 3 on any difference.
    """
    from headrace.console.datastreams.conditions import remaining_datastreams
    from headrace.console.datastreams.difference import StepKind, carry_out, find_difference
    from headrace.console.datastreams.manifests import STDIN, read_manifests

    scope = _scope(owner, label or []) if prune or owner or label else None
    _refuse_contradictions(scope if prune else None, is_scoped=scope is not None, prune=prune)
    seconds = waiting.seconds(is_done=not (dry_run or check), how="with --dry-run or --check")
    is_asked = not (yes or dry_run or check)
    _require_confirmation(is_asked and (call.as_json or STDIN in files or not sys.stdin.isatty()))
    manifests, client = read_manifests(files), call.connect()
    found = find_difference(client, manifests, scope)
    if not call.as_json:
        _show(found)
    does_it = bool(found.steps) and not (found.refused or dry_run or check)
    if does_it and is_asked and not typer.confirm("apply these changes?", err=True):
        complain("no changes applied")
        raise typer.Exit(EXIT_FAILED)
    failed = carry_out(client, found.steps, cause.reason, cause.requested_by) if does_it else {}
    if does_it and seconds is not None:
        deleted = (step.name for step in found.of(StepKind.DELETE) if step.name not in failed)
        failed |= remaining_datastreams(client, deleted, seconds)
    if call.as_json:
        print_json(_document(found, failed, is_applied=does_it))
    elif does_it:
        _print_steps(found.steps, failed)
    if found.refused or failed:
        raise typer.Exit(EXIT_FAILED)
    if check and found.steps:
        raise typer.Exit(EXIT_DIFFERS)


def _scope(owner: str, labels: list[str]) -> PruneScope:
    """Parse the options that select datastreams for --prune. Raises InvalidRequest for a label without a
    value."""
    from headrace.console.datastreams.difference import PruneScope
    from mirror.errors import InvalidRequest

    found = {}
    for label in labels:
        key, is_pair, value = label.partition("=")
        if not key or not is_pair:
            raise InvalidRequest(f"invalid --label {label!r}: no value", advice="write --label KEY=VALUE")
        found[key] = value
    return PruneScope(owner, found)


def _refuse_contradictions(scope: PruneScope | None, *, is_scoped: bool, prune: bool) -> None:
    """Raise InvalidRequest if --prune is given without --owner or --label, or one of these without
    --prune."""
    from mirror.errors import InvalidRequest

    if prune and (scope is None or not (scope.owner or scope.labels)):
        raise InvalidRequest(
            "--prune without --owner or --label would delete the datastreams of all owners",
            advice="add --owner TEAM or --label KEY=VALUE",
        )
    if is_scoped and not prune:
        raise InvalidRequest("--owner and --label require --prune")


def _require_confirmation(is_unattended: bool) -> None:
    """Raise InvalidRequest if a deletion cannot be confirmed because there is no terminal."""
    from mirror.errors import InvalidRequest

    if is_unattended:
        raise InvalidRequest("no terminal to confirm on", advice="pass --yes, --dry-run or --check")


def _show(found: DatastreamDifference) -> None:
    from headrace.console.datastreams.changes import print_update_plan
    from headrace.console.datastreams.difference import StepKind

    for step in found.steps:
        if step.kind is StepKind.DELETE:
            console().print(f"{step.name} (owner {step.definition['owner']}) is in no file")
        print_update_plan(step.plan, _WOULD[step.kind.value])
    for name, why in found.refused.items():
        complain(f"cannot apply {name}: {why}")
    counts = ", ".join(f"{len(found.of(kind))} to {kind}" for kind in StepKind)
    console().print(f"{counts}, {len(found.unchanged)} unchanged")


def _print_steps(steps: tuple[DatastreamChange, ...], failed: dict[str, str]) -> None:
    for step in steps:
        if step.name not in failed:
            console().print(f"{step.name}: {step.kind}d")
    for name, why in failed.items():
        complain(f"{name}: {why}")


def _document(found: DatastreamDifference, failed: dict[str, str], *, is_applied: bool) -> dict[str, Any]:
    from headrace.console.datastreams.difference import StepKind

    return {
        "create": [step.plan for step in found.of(StepKind.CREATE)],
        "change": [step.plan for step in found.of(StepKind.CHANGE)],
        "delete": [step.plan for step in found.of(StepKind.DELETE)],
        "unchanged": list(found.unchanged),
        "refused": dict(found.refused),
        "applied": is_applied,
        "failed": failed,
    }
