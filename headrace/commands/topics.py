"""`headrace topics`: show evidence about unused topics, and retire them step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.commands.calls import CallOptions, CauseOptions
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import console, error_console, print_json, print_table, time_text
from mirror.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

app = CommandGroup(no_args_is_help=True)
TopicArgument = Annotated[str, typer.Argument(help="Name of the topic.")]
ClusterOption = Annotated[str, typer.Option(help="Cluster of the topic: an alias, or host:port.")]
DaysOption = Annotated[int, typer.Option(min=0, help="Minimum age and minimum time without use, in days.")]
_TIMEOUT_SECONDS: Final = 180.0
_PATH: Final = "/v1/retirements"
_UNKNOWN: Final = "unknown"
_NEVER: Final = "never"


@app.command()
def unused(
    cluster: ClusterOption,
    days: DaysOption = 60,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show every topic, with the reasons to keep it.")
    ] = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Show unused topics of a cluster, with the evidence."""
    client = call.connect(_TIMEOUT_SECONDS)
    found = client.get("/v1/topics", cluster=cluster, days=days, unused=not show_all)
    if call.printed_json(found):
        return
    columns = [
        "topic",
        "records",
        "bytes",
        "first_seen",
        "no_inflow_since",
        "last_read",
        "readers",
        "selected_by",
    ]
    rows = [_row(topic) for topic in found["topics"]]
    print_table(
        f"{'topics' if show_all else 'unused topics'} of {cluster}",
        [*columns, *(["keep"] if show_all else [])],
        rows,
    )
    console().print("readers that commit no offsets, such as backup tools, are unknown: ask the owners")
    if not show_all:
        kept = counted(found["kept"], "topic is", "topics are")
        console().print(f"{kept} in use, too young or unknown: --all shows the reasons")


@app.command()
def retire(
    name: TopicArgument,
    cluster: ClusterOption,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do the next step (default: only check).")
    ] = False,
    days: DaysOption = 60,
    wait: Annotated[str, typer.Option(help="Time between seal and deletion, such as 7d.")] = "7d",
    no_acl: Annotated[
        bool, typer.Option("--no-acl", help="Do not create an ACL that denies writes.")
    ] = False,
    cause: CauseOptions = CauseOptions(),
    call: CallOptions = CallOptions(),
) -> None:
    """Seal an unused topic, and delete it after a waiting time.

    Each call with --execute performs the next step. The first call seals the topic: it pauses its datastreams
    and denies writes. A call after the waiting time checks again that the topic is unused, and deletes it.
    Without --execute, nothing is changed. Exits with 1 if the topic is in use.
    """
    from headrace.console.durations import milliseconds

    body: dict[str, Any] = {
        "cluster": cluster,
        "topic": name,
        "execute": execute,
        "days": days,
        **cause.given_fields,
    }
    body |= {"wait_seconds": milliseconds(wait) // 1_000, "denies_writes": not no_acl}
    client = call.connect(_TIMEOUT_SECONDS)
    found = client.post(_PATH, body)
    while execute and not found["is_over"] and found["retirement"]["phase"] == "deleting":
        _show_progress(found["retirement"])
        found = client.post(_PATH, body)
    _show(found, as_json=call.as_json)


@app.command()
def restore(
    name: TopicArgument,
    cluster: ClusterOption,
    cause: CauseOptions = CauseOptions(),
    call: CallOptions = CallOptions(),
) -> None:
    """End a retirement: allow writes, resume the datastreams."""
    body = {"cluster": cluster, "topic": name, **cause.given_fields}
    found = call.connect(_TIMEOUT_SECONDS).post(f"{_PATH}/restore", body)
    if call.printed_json(found):
        return
    console().print(f"topic {name} of {cluster} is restored")
    if emptied := found["retirement"]["emptied"]:
        console().print(f"the records of {counted(emptied, 'partition')} were already deleted")


@app.command()
def retirements(call: CallOptions = CallOptions()) -> None:
    """Show the retirements in progress."""
    found = call.connect().get(_PATH)
    if call.printed_json(found):
        return
    columns = ["cluster", "topic", "phase", "due", "owners", "requested_by", "problem"]
    rows = [topic | {"due": _due(topic), "owners": ", ".join(topic["owners"])} for topic in found]
    print_table(f"{counted(len(found), 'retirement')} in progress", columns, rows)


def _due(retirement: Mapping[str, Any]) -> str:
    return time_text(retirement["due_ms"] or None, _NEVER)


def _row(topic: Mapping[str, Any]) -> dict[str, Any]:
    seen = {
        name: time_text(topic[f"{name}_ms"], _NEVER)
        for name in ("first_seen", "no_inflow_since", "last_read")
    }
    return {
        "topic": topic["topic"],
        "records": _UNKNOWN if topic["records"] is None else topic["records"],
        "bytes": _UNKNOWN if topic["bytes"] is None else topic["bytes"],
        **seen,
        "readers": ", ".join(reader["group"] for reader in topic["readers"]),
        "selected_by": ", ".join(selector["datastream"] for selector in topic["selected_by"]),
        "keep": ", ".join(topic["reasons"]),
    }


def _show_progress(retirement: Mapping[str, Any]) -> None:
    done = f"{retirement['emptied']} of {counted(retirement['partitions'], 'partition')}"
    error_console().print(f"records of {done} deleted")


def _show(found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    retirement = found["retirement"]
    what = f"topic {retirement['topic']} of {retirement['cluster']}"
    if found["is_over"]:
        console().print(f"{what} is deleted")
    elif found["is_dry_run"]:
        _show_plan(found)
    else:
        console().print(f"{what} is {retirement['phase']}, can be deleted after {_due(retirement)}")
        if retirement["paused"]:
            console().print(f"paused: {', '.join(retirement['paused'])}")
        console().print(f"ACL that denies writes: {retirement['denial']}")


def _show_plan(found: Mapping[str, Any]) -> None:
    retirement = found["retirement"]
    console().print(f"topic {retirement['topic']} of {retirement['cluster']}: dry run, nothing is changed")
    console().print(f"phase: {retirement['phase']}, ACL that denies writes: {retirement['denial']}")
    console().print(f"datastreams to pause: {', '.join(retirement['paused']) or 'none'}")
    console().print(f"owners: {', '.join(retirement['owners']) or 'unknown'}")
    console().print("--execute does the next step")
