"""`headrace datastream create`, `update`, `list` and `get`: definitions of datastreams."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from headrace.commands.calls import CallOptions, CauseOptions, ServiceOptions
from headrace.commands.datastreams.connection import NameArgument, show_outcome
from headrace.commands.options import DocumentOutput, Output
from headrace.console.datastreams.changes import print_update_plan
from headrace.console.datastreams.fields import document_of, patch_of, unset_names, with_fields
from headrace.console.resources import DATASTREAMS, path_of
from headrace.console.terminal import complain, print_json, print_table, print_yaml
from headrace.errors import EXIT_FAILED

PairsOption = Annotated[list[str] | None, typer.Option("--set", help="Metadata, KEY=VALUE; repeatable.")]

_SELECTING: Final = frozenset({"source", "destination", "metadata"})
"""Fields of a definition that determine which topics are copied."""


@with_fields(creates=True)
def create(
    name: NameArgument,
    pairs: PairsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the result without creating it.")] = False,
    cause: CauseOptions = CauseOptions(),
    call: CallOptions = CallOptions(),
    **options: Any,
) -> None:
    """Create a datastream; the leader plans and starts it."""
    body = {"name": name, **document_of(options, pairs or ())}
    answer = call.connect().create(DATASTREAMS, body, dry_run=dry_run, **cause.fields)
    show_outcome(answer, as_json=call.as_json, dry_run=dry_run)


@with_fields(creates=False)
def update(
    name: NameArgument,
    pairs: PairsOption = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(help=f"Field to remove: {unset_names()}, or a metadata key; repeatable."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Stop partitions without confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show changes and moves without applying them.")
    ] = False,
    cause: CauseOptions = CauseOptions(),
    call: CallOptions = CallOptions(),
    **options: Any,
) -> None:
    """Change a datastream while it runs.

    Only added partitions start, and only removed partitions stop. An update that stops partitions lists them
    and asks for confirmation.
    """
    client, path = call.connect(), path_of(name)
    changes = patch_of(options, pairs or (), unset or ())
    version = client.version(path)
    if not (dry_run or yes) and not changes.keys().isdisjoint(_SELECTING):
        _confirm_stops(client.patch(path, changes, version, dry_run=True), as_json=call.as_json)
    answer = client.patch(path, changes, version, dry_run=dry_run, **cause.fields)
    show_outcome(answer, as_json=call.as_json, dry_run=dry_run)


def _confirm_stops(plan: dict[str, Any], *, as_json: bool) -> None:
    """Ask for confirmation if an update would stop partitions. Raises InvalidRequest without a terminal."""
    if not plan["stops"]:
        return
    if as_json or not sys.stdin.isatty():
        from mirror.errors import InvalidRequest

        raise InvalidRequest(
            f"update of {plan['name']} not confirmed: {'; '.join(plan['reasons'])}",
            advice="pass --yes to confirm; --dry-run shows all changes",
        )
    print_update_plan(plan)
    if not typer.confirm("apply these changes?", err=True):
        complain("no changes applied")
        raise typer.Exit(EXIT_FAILED)


def list_all(
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.TABLE,
    owner: Annotated[str | None, typer.Option(help="Show only datastreams of this owner.")] = None,
    status: Annotated[
        list[str] | None, typer.Option(help="Show only datastreams in this state, such as READY; repeatable.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Show only datastreams that copy from this cluster.")
    ] = None,
    destination: Annotated[
        str | None, typer.Option(help="Show only datastreams that copy to this cluster.")
    ] = None,
    call: CallOptions = CallOptions(),
) -> None:
    """List datastreams, optionally filtered."""
    given = {"owner": owner, "status": status, "source": source, "destination": destination}
    wanted = {name: value for name, value in given.items() if value is not None and value != []}
    found = call.connect().get(DATASTREAMS, **wanted)
    if call.as_json or output is Output.JSON:
        print_json(found)
        return
    if output is Output.YAML:
        print_yaml(found, several=True)
        return
    rows = [
        {
            "name": datastream["name"],
            "status": datastream["status"],
            "from": _joined(datastream["source"], "cluster", "topics"),
            "to": _joined(datastream["destination"], "cluster", "name"),
            "owner": datastream["owner"],
            "paused": _pauses(datastream),
            "problem": datastream["problem"]["reason"] if datastream.get("problem") else "",
        }
        for datastream in found
    ]
    print_table("datastreams", ["name", "status", "from", "to", "owner", "paused", "problem"], rows)


def _pauses(datastream: dict[str, Any]) -> str:
    """Format the pauses of a datastream: partitions, requester, end and reason of each."""
    from mirror.model.datastreams.pauses import moment_text

    found = [("", datastream["halt"])] if datastream.get("halt") else []
    for topic, pause in (datastream.get("pauses") or {}).items():
        numbers = "*" if pause["partitions"] is None else ",".join(map(str, pause["partitions"]))
        found.append((f"{topic}:{numbers} ", pause))
    texts = []
    for subject, cause in found:
        requester = f"by {cause['requested_by']} " if cause.get("requested_by") else ""
        end = f"until {moment_text(cause['until_ms'])} " if cause.get("until_ms") else ""
        texts.append(f"{subject}{requester}{end}{cause['reason']}".strip())
    return "; ".join(texts)


def _joined(part: dict[str, str] | None, *fields: str) -> str:
    """Join the values of some fields with slashes. Empty if `part` is missing in a damaged definition."""
    return "/".join(part[field] for field in fields) if part else ""


def get(
    name: NameArgument,
    output: Annotated[
        DocumentOutput, typer.Option("--output", "-o", help="Output format.")
    ] = DocumentOutput.JSON,
    service: ServiceOptions = ServiceOptions(),
) -> None:
    """Show a datastream as JSON or YAML."""
    found = service.connect().get(path_of(name))
    if output is DocumentOutput.YAML:
        print_yaml([found])
    else:
        print_json(found)
