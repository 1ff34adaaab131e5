"""`headrace import-brooklin`: import the datastreams of a Brooklin cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.options import ConfigOption, JsonOption
from mirror.wording import first_few

if TYPE_CHECKING:
    from headrace.brooklin.importer import TakeOver
    from headrace.brooklin.verdicts import ImportFinding


def import_brooklin(
    zookeeper: Annotated[str, typer.Argument(help="ZooKeeper of Brooklin, host:port[,host:port…].")],
    cluster: Annotated[str, typer.Option(help="Brooklin's setting brooklin.server.coordinator.cluster.")],
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Create the datastreams (default: only show them).")
    ] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Import running datastreams as paused.")] = False,
    hashed_groups: Annotated[
        bool, typer.Option("--hashed-groups", help="Brooklin was configured with isGroupIdHashingEnabled.")
    ] = False,
    same_security: Annotated[
        bool,
        typer.Option(
            "--same-security",
            help="Connect with the security settings of Headrace's ZooKeeper (default: none).",
        ),
    ] = False,
    owner: Annotated[
        str, typer.Option(help="Owner of datastreams that Brooklin stores without an owner.")
    ] = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import the datastreams of a Brooklin cluster.

    Shows the equivalent definition of each datastream. With --apply, also creates the datastreams. Brooklin's
    ZooKeeper is only read. Exits with 0 if every datastream can be imported.
    """
    from headrace.brooklin.importer import ImportOptions, take_over
    from headrace.console.terminal import print_json
    from headrace.process.logs import silence_library
    from headrace.settings import load_settings
    from mirror.model.bounds import REACH_SECONDS
    from mirror.settings import ZooKeeperSettings

    silence_library("kazoo")  # the error reports its failures
    settings = load_settings(config)
    place = settings.zookeeper if same_security else ZooKeeperSettings()
    named = {
        "servers": zookeeper,
        "root": f"/{cluster.strip('/')}",
        "connect_timeout_seconds": REACH_SECONDS,
    }
    there = place.model_copy(update=named)
    options = ImportOptions(hashed_groups=hashed_groups, owner=owner, paused=paused, apply=apply)
    outcome = take_over(settings, there, options)
    if as_json:
        print_json(_document(outcome))
    else:
        _print_outcome(outcome)
    if any(finding.is_trouble for finding in outcome.findings):
        raise typer.Exit(1)


def _document(outcome: TakeOver) -> dict[str, Any]:
    return {
        "cluster": outcome.cluster,
        "live_instances": list(outcome.live),
        "applied": outcome.applied,
        "datastreams": [_finding_document(finding) for finding in outcome.findings],
    }


def _finding_document(finding: ImportFinding) -> dict[str, Any]:
    from mirror.control.audit import shown_document

    definition = None
    if finding.datastream is not None:
        definition = shown_document(finding.datastream) | {"status": str(finding.status)}
    return {
        "name": finding.name,
        "verdict": str(finding.verdict),
        "notes": list(finding.notes),
        "definition": definition,
    }


def _print_outcome(outcome: TakeOver) -> None:
    from headrace.console.terminal import console, print_table

    columns = ["name", "verdict", "from", "to", "group", "initial status", "paused topics"]
    print_table(f"datastreams of {outcome.cluster}", columns, [_row(finding) for finding in outcome.findings])
    out = console()
    for finding in outcome.findings:
        for note in finding.notes:
            out.print(f"{finding.name}: {note}")
    created = [finding for finding in outcome.findings if finding.verdict == "create"]
    if outcome.applied:
        out.print(f"{len(created)} created")
    elif created:
        out.print(f"{len(created)} would be created; run again with --apply")
    if outcome.live and not outcome.applied:
        out.print(f"Brooklin is running on {first_few(outcome.live, 3)}: stop it first, or use --paused")


def _row(finding: ImportFinding) -> dict[str, Any]:
    imported = finding.datastream
    if imported is None:
        return {"name": finding.name, "verdict": finding.verdict}
    return {
        "name": finding.name,
        "verdict": finding.verdict,
        "from": f"{imported.source}/{imported.selection.include}",
        "to": f"{imported.destination}/{imported.naming.template}",
        "group": imported.consumer_group,
        "initial status": finding.status if finding.verdict == "create" else "",
        "paused topics": ", ".join(sorted(imported.pauses)),
    }
