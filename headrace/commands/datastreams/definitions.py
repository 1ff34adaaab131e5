"""`headrace datastream create`, `update`, `list` and `get`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.commands.datastreams.connection import (
    NameArgument,
    ReasonOption,
    WhoOption,
    connect,
    show,
)
from headrace.commands.options import AtOption, ConfigOption, DocumentOutput, JsonOption, Output
from headrace.console.resources import DATASTREAMS, path_of
from headrace.console.terminal import print_json, print_table, print_yaml


def create(
    name: NameArgument,
    topics: Annotated[str, typer.Option(help="Regular expression over whole topic names.")],
    owner: Annotated[str, typer.Option(help="Who answers for it.")],
    source: Annotated[str, typer.Option(help="Cluster alias or host:port.")] = "source",
    destination: Annotated[str, typer.Option(help="Cluster alias or host:port.")] = "destination",
    exclude: Annotated[str, typer.Option(help="Regular expression of topics to leave out.")] = "",
    rename: Annotated[str, typer.Option(help="Name at the destination; * is the source name.")] = "*",
    min_tasks: Annotated[int, typer.Option(min=1, help="Least number of tasks.")] = 1,
    max_tasks: Annotated[
        int | None, typer.Option(min=1, help="Largest number of tasks.", show_default=False)
    ] = None,
    objective_ms: Annotated[
        int | None, typer.Option(min=1, help="p99 latency objective in ms.", show_default=False)
    ] = None,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a datastream; the leader plans and starts it."""
    body: dict[str, Any] = {
        "name": name,
        "source": {"cluster": source, "topics": topics, "exclude": exclude},
        "destination": {"cluster": destination, "name": rename},
        "limits": {"min_tasks": min_tasks, "max_tasks": max_tasks},
        "objective": {"milliseconds": objective_ms} if objective_ms else None,
        "metadata": {"owner": owner},
    }
    show(connect(at, config).post(DATASTREAMS, body), as_json)


def update(
    name: NameArgument,
    topics: Annotated[
        str | None, typer.Option(help="Regular expression over whole topic names.", show_default=False)
    ] = None,
    exclude: Annotated[
        str | None, typer.Option(help="Regular expression of topics to leave out.", show_default=False)
    ] = None,
    min_tasks: Annotated[
        int | None, typer.Option(min=1, help="Least number of tasks.", show_default=False)
    ] = None,
    max_tasks: Annotated[
        int | None, typer.Option(min=1, help="Largest number of tasks.", show_default=False)
    ] = None,
    max_partitions_per_task: Annotated[
        int | None, typer.Option(min=1, help="Most partitions of a task.", show_default=False)
    ] = None,
    objective_ms: Annotated[
        int | None, typer.Option(min=1, help="Latency objective in ms.", show_default=False)
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Who answers for it.", show_default=False)] = None,
    bytes_per_second: Annotated[int | None, typer.Option(min=1, help="Quota.", show_default=False)] = None,
    pairs: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE of the metadata.", show_default=False)
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            help="What to take away: exclude, max-tasks, max-partitions-per-task, objective-ms,"
            " bytes-per-second, or a key of the metadata.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Only show what would change, start, stop and move.")] = False,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change a datastream while it runs; only partitions that enter or leave start or stop."""
    from headrace.console.changes import patch_of, print_update_plan

    options = {
        "topics": topics,
        "exclude": exclude,
        "min_tasks": min_tasks,
        "max_tasks": max_tasks,
        "max_partitions_per_task": max_partitions_per_task,
        "objective_ms": objective_ms,
        "owner": owner,
        "bytes_per_second": bytes_per_second,
    }
    client, path = connect(at, config), path_of(name)
    changes = patch_of(options, pairs or (), unset or ())
    cause = {"reason": reason, "requested_by": requested_by}
    answer = client.patch(path, changes, client.version(path), dry_run=dry_run, **cause)
    if dry_run and not as_json:
        print_update_plan(answer)
    else:
        show(answer, as_json)


def list_all(
    output: Annotated[Output, typer.Option("--output", "-o", help="How it is printed.")] = Output.TABLE,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List datastreams."""
    found = connect(at, config).get(DATASTREAMS)
    if as_json or output is Output.JSON:
        print_json(found)
        return
    if output is Output.YAML:
        print_yaml(found, several=True)
        return
    rows = [
        {
            "name": one["name"],
            "status": one["status"],
            "from": _joined(one["source"], "cluster", "topics"),
            "to": _joined(one["destination"], "cluster", "name"),
            "owner": one["owner"],
            "paused": _pauses(one),
            "problem": one["problem"]["reason"] if one.get("problem") else "",
        }
        for one in found
    ]
    print_table("datastreams", ["name", "status", "from", "to", "owner", "paused", "problem"], rows)


def _pauses(one: dict[str, Any]) -> str:
    """What a person paused of a datastream, by whom, until when and why."""
    from mirror.model.datastreams.pauses import moment_text

    found = [("", one["halt"])] if one.get("halt") else []
    for topic, pause in (one.get("pauses") or {}).items():
        numbers = "*" if pause["partitions"] is None else ",".join(map(str, pause["partitions"]))
        found.append((f"{topic}:{numbers} ", pause))
    texts = []
    for what, cause in found:
        who = f"by {cause['requested_by']} " if cause.get("requested_by") else ""
        end = f"until {moment_text(cause['until_ms'])} " if cause.get("until_ms") else ""
        texts.append(f"{what}{who}{end}{cause['reason']}".strip())
    return "; ".join(texts)


def _joined(part: dict[str, str] | None, *fields: str) -> str:
    """Empty for what is not known of a definition that is damaged."""
    return "/".join(part[field] for field in fields) if part else ""


def get(
    name: NameArgument,
    output: Annotated[
        DocumentOutput, typer.Option("--output", "-o", help="How it is printed.")
    ] = DocumentOutput.JSON,
    at: AtOption = "",
    config: ConfigOption = None,
) -> None:
    """Show one datastream, as JSON or YAML."""
    found = connect(at, config).get(path_of(name))
    if output is DocumentOutput.YAML:
        print_yaml([found])
    else:
        print_json(found)
