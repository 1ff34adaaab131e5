"""`headrace slo …`: export and import objectives as OpenSLO documents."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.calls import CallOptions, CauseOptions
from headrace.commands.datastreams.connection import complete_name
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import complain, console, print_yaml
from headrace.errors import EXIT_FAILED
from mirror.wording import counted

if TYPE_CHECKING:
    from headrace.console.client import RestClient

app = CommandGroup(no_args_is_help=True)


@app.command("export")
def export_slos(
    names: Annotated[
        list[str] | None, typer.Argument(help="Datastreams (default: all).", autocompletion=complete_name)
    ] = None,
    call: CallOptions = CallOptions(),
) -> None:
    """Print objectives as OpenSLO v1 documents (YAML)."""
    from headrace.console.resources import DATASTREAMS, path_of
    from mirror.model.datastreams.objectives import Objective
    from monitor.objectives.openslo import NamedObjective, to_document

    client = call.connect()
    found = [client.get(path_of(name)) for name in names] if names else client.get(DATASTREAMS)
    documents = [
        to_document(NamedObjective(definition["name"], Objective(**objective)), definition["owner"])
        for definition in found
        for objective in definition.get("objectives", [])
    ]
    if not call.printed_json(documents):
        print_yaml(documents, several=True)


@app.command("import")
def import_slos(
    files: Annotated[
        list[str], typer.Argument(help="OpenSLO files (YAML or JSON), folders of such files, or - for stdin.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show changes without applying them.")] = False,
    cause: CauseOptions = CauseOptions(),
    call: CallOptions = CallOptions(),
) -> None:
    """Replace objectives by the objectives in OpenSLO documents.

    Datastreams without a document keep their objectives. If a document is invalid, nothing is imported.
    """
    from headrace.console.datastreams.manifests import documents_of
    from mirror.errors import HeadraceError, InvalidRequest, Unreachable
    from monitor.objectives.openslo import by_datastream

    wanted = by_datastream(document for path in files for document in documents_of(path))
    if not wanted:
        raise InvalidRequest(f"no document found in {', '.join(files)}")
    client = call.connect()
    outcomes: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name, objectives in wanted.items():
        try:
            outcomes[name] = _import_one(
                client, name, [asdict(objective) for objective in objectives], cause.fields, dry_run
            )
        except Unreachable:
            raise
        except HeadraceError as error:
            failed[name] = str(error)
    if not call.printed_json({"imported": outcomes, "failed": failed}):
        for name, outcome in outcomes.items():
            console().print(f"{name}: {outcome}")
        for name, why in failed.items():
            complain(f"objectives of {name} not changed: {why}")
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _import_one(
    client: RestClient, name: str, objectives: list[Any], cause: dict[str, str], dry_run: bool
) -> str:
    """Import the objectives of one datastream, and return the result as text. Raises HeadraceError."""
    from headrace.console.resources import path_of

    path, patch = path_of(name), {"objectives": objectives}
    version = client.version(path)
    if not client.patch(path, patch, version, dry_run=True)["changes"]:
        return "no changes needed"
    count = counted(len(objectives), "objective")
    if dry_run:
        return f"would be set to {count}"
    client.patch(path, patch, version, **cause)
    return count
