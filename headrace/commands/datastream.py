"""`headrace datastream …`: the use cases of /v1/datastreams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.terminal import console, print_json, print_table

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.console.client import RestClient

app = typer.Typer(no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(help="The datastream's name.")]
ReasonOption = Annotated[str, typer.Option(help="Why; it is kept and shown.", show_default=False)]
EndOption = Annotated[
    str, typer.Option("--for", help="How long, as 90m or 6h; else until a resume.", show_default=False)
]
UntilOption = Annotated[
    str, typer.Option(help="Until when, as 2027-01-31T18:00:00Z; else until a resume.", show_default=False)
]
WhoOption = Annotated[str, typer.Option("--by", help="Who asks; it is kept and shown.", show_default=False)]


def connect(at: str, config: Path | None) -> RestClient:
    """A client for the instance that the options or the settings name. Raises InvalidRequest for an address
    that is none."""
    from headrace.console.client import RestClient
    from headrace.settings import load_settings
    from mirror.model.clusters import bootstrap_servers

    if not at:
        settings = load_settings(config)
        at = f"{settings.api.host}:{settings.api.port}"
    bootstrap_servers("--at", at)
    return RestClient(at)


def path_of(name: str) -> str:
    """Where REST has a datastream of any name, also one that is damaged. Raises InvalidRequest for names
    that would lead elsewhere."""
    from mirror.errors import InvalidRequest

    if name in ("", ".", ".."):
        raise InvalidRequest(f"no datastream is named {name!r}", advice="headrace datastream list shows them")
    return f"/v1/datastreams/{quote(name, safe='', errors='surrogatepass')}"


@app.command()
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
    _show(connect(at, config).post("/v1/datastreams", body), as_json)


@app.command()
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
        _show(answer, as_json)


@app.command(name="list")
def list_all(at: AtOption = "", config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List datastreams."""
    found = connect(at, config).get("/v1/datastreams")
    if as_json:
        print_json(found)
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


@app.command()
def get(name: NameArgument, at: AtOption = "", config: ConfigOption = None) -> None:
    """Show one datastream as JSON."""
    print_json(connect(at, config).get(path_of(name)))


@app.command()
def pause(
    name: NameArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    duration: EndOption = "",
    until: UntilOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop copying, for a time or until a resume; everything is kept."""
    end = _end_of(duration, until)
    _act(connect(at, config), name, "pause", reason, requested_by, as_json=as_json, **end)


@app.command()
def resume(
    name: NameArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy again, from where it stood."""
    _act(connect(at, config), name, "resume", reason, requested_by, as_json=as_json)


@app.command()
def stop(
    name: NameArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drain and stop; tasks are given up."""
    _act(connect(at, config), name, "stop", reason, requested_by, as_json=as_json)


@app.command()
def delete(
    name: NameArgument, at: AtOption = "", config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Remove the datastream; topics at the destination stay."""
    _show(connect(at, config).delete(path_of(name)), as_json)


PartitionsArgument = Annotated[list[str], typer.Argument(help="topic:0,13,2 or topic:* for all of them.")]


@app.command(name="pause-partitions")
def pause_partitions(
    name: NameArgument,
    partitions: PartitionsArgument,
    reason: Annotated[str, typer.Option(help="Why; it is kept and shown.")],
    requested_by: WhoOption = "",
    duration: EndOption = "",
    until: UntilOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop copying some partitions, for a time or until they are resumed; the others go on."""
    chosen = {"partitions": _by_topic(partitions), **_end_of(duration, until)}
    _act(connect(at, config), name, "pause-partitions", reason, requested_by, as_json=as_json, **chosen)


@app.command(name="resume-partitions")
def resume_partitions(
    name: NameArgument,
    partitions: PartitionsArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy paused partitions again, from where they stood."""
    chosen = {"partitions": _by_topic(partitions)}
    _act(connect(at, config), name, "resume-partitions", reason, requested_by, as_json=as_json, **chosen)


def _end_of(duration: str, until: str) -> dict[str, Any]:
    """When a pause ends, for the body of a request. Raises InvalidRequest."""
    from headrace.console.durations import milliseconds

    length = {"for_seconds": milliseconds(duration) / 1000} if duration else {}
    return {**length, **({"until": until} if until else {})}


@app.command()
def move(
    name: NameArgument,
    instance: Annotated[str, typer.Argument(help="Name or host of the instance to copy them.")],
    partitions: Annotated[list[str], typer.Argument(help="topic-0 topic-1 …")],
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring partitions to an instance; the leader's next plan does it."""
    body = {"partitions": partitions, "instance": instance, "requested_by": "headrace datastream move"}
    answer = connect(at, config).post(path_of(name) + "/move", body)
    if as_json:
        print_json(answer)
    else:
        console().print(
            f"{name}: {len(partitions)} partitions will move to {instance}; headrace events shows it"
        )


def _by_topic(partitions: list[str]) -> dict[str, str]:
    from mirror.errors import InvalidRequest

    found: dict[str, str] = {}
    for one in partitions:
        topic, _, numbers = one.rpartition(":")
        if not topic or not numbers:
            raise InvalidRequest(f"{one!r} names no partitions", advice="write topic:0,13,2 or topic:*")
        found[topic] = f"{found[topic]},{numbers}" if topic in found else numbers
    return found


def _act(
    client: RestClient,
    name: str,
    action: str,
    reason: str,
    requested_by: str,
    *,
    as_json: bool,
    **more: Any,
) -> None:
    """Have an action done, of some partitions or of all, and show the datastream as it is then."""
    body = {"reason": reason, "requested_by": requested_by, **more}
    _show(client.post(f"{path_of(name)}/{action}", body), as_json)


def _show(datastream: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(datastream)
    else:
        console().print(f"{datastream['name']}: {datastream['status']}")
