"""`headrace datastream …`: commands that change the state of a datastream or of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.datastreams.connection import (
    NameArgument,
    ReasonOption,
    WhoOption,
    connect,
    show,
    show_outcome,
)
from headrace.commands.datastreams.wait_options import TimeoutOption, WaitOption, await_end, seconds_to_wait
from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.resources import path_of, path_of_group
from headrace.console.terminal import console, print_json
from mirror.wording import counted

if TYPE_CHECKING:
    from headrace.console.client import RestClient

EndOption = Annotated[
    str,
    typer.Option("--for", help="Duration, such as 90m or 6h (default: until resumed).", show_default=False),
]
UntilOption = Annotated[
    str,
    typer.Option(help="End time, such as 2027-01-31T18:00:00Z (default: until resumed).", show_default=False),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show changes and moves without applying them.")
]
PrefixArgument = Annotated[
    str, typer.Argument(help="Task prefix that the datastreams share; for an ungrouped datastream, its name.")
]
PartitionsArgument = Annotated[
    list[str], typer.Argument(help="Partitions as TOPIC:0,2,13; TOPIC:* selects all partitions of the topic.")
]


def pause(
    name: NameArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    duration: EndOption = "",
    until: UntilOption = "",
    dry_run: DryRunOption = False,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pause copying for a time or until resumed.

    Checkpoints and tasks are kept."""
    end = _end_of(duration, until)
    _act(connect(at, config), name, "pause", reason, requested_by, as_json=as_json, dry_run=dry_run, **end)


def resume(
    name: NameArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    dry_run: DryRunOption = False,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume copying from the checkpoints."""
    _act(connect(at, config), name, "resume", reason, requested_by, as_json=as_json, dry_run=dry_run)


def stop(
    name: NameArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    dry_run: DryRunOption = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drain and stop a datastream, and release its tasks."""
    seconds = seconds_to_wait(wait, timeout, is_done=not dry_run, how="with --dry-run")
    client, body = connect(at, config), {"reason": reason, "requested_by": requested_by}
    answer, location = client.begin("POST", f"{path_of(name)}/stop", body, dry_run=dry_run)
    _conclude(client, answer, location, seconds, as_json=as_json, dry_run=dry_run)


def delete(
    name: NameArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    dry_run: DryRunOption = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a datastream; keep destination topics."""
    seconds = seconds_to_wait(wait, timeout, is_done=not dry_run, how="with --dry-run")
    client, cause = connect(at, config), {"reason": reason, "requested_by": requested_by}
    answer, location = client.begin("DELETE", path_of(name), dry_run=dry_run, **cause)
    _conclude(client, answer, location, seconds, as_json=as_json, dry_run=dry_run)


def pause_partitions(
    name: NameArgument,
    partitions: PartitionsArgument,
    reason: Annotated[str, typer.Option(help="Reason, recorded and displayed with the action.")],
    requested_by: WhoOption = "",
    duration: EndOption = "",
    until: UntilOption = "",
    dry_run: DryRunOption = False,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pause partitions for a time or until resumed.

    Other partitions continue."""
    chosen = {"partitions": _by_topic(partitions), **_end_of(duration, until)}
    _act(
        connect(at, config),
        name,
        "pause-partitions",
        reason,
        requested_by,
        as_json=as_json,
        dry_run=dry_run,
        **chosen,
    )


def resume_partitions(
    name: NameArgument,
    partitions: PartitionsArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    dry_run: DryRunOption = False,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume paused partitions from their checkpoints."""
    chosen = {"partitions": _by_topic(partitions)}
    _act(
        connect(at, config),
        name,
        "resume-partitions",
        reason,
        requested_by,
        as_json=as_json,
        dry_run=dry_run,
        **chosen,
    )


def pause_group(
    prefix: PrefixArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    duration: EndOption = "",
    until: UntilOption = "",
    dry_run: DryRunOption = False,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pause all datastreams that share tasks, atomically."""
    body = {"reason": reason, "requested_by": requested_by, **_end_of(duration, until)}
    _act_on_group(connect(at, config), prefix, "pause", body, as_json=as_json, dry_run=dry_run)


def resume_group(
    prefix: PrefixArgument,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    dry_run: DryRunOption = False,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume all datastreams that share tasks, atomically."""
    body = {"reason": reason, "requested_by": requested_by}
    _act_on_group(connect(at, config), prefix, "resume", body, as_json=as_json, dry_run=dry_run)


def restart_from(
    name: NameArgument,
    start: Annotated[
        str,
        typer.Argument(help="Start position: earliest, earliest-local, or a time such as 2027-01-31T18:00Z."),
    ],
    allow_duplicates: Annotated[
        bool, typer.Option("--allow-duplicates", help="Restart even if the destination contains records.")
    ] = False,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    dry_run: DryRunOption = False,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy again from START to a rebuilt destination."""
    _act(
        connect(at, config),
        name,
        "restart-from",
        reason,
        requested_by,
        as_json=as_json,
        dry_run=dry_run,
        start=start,
        allow_duplicates=allow_duplicates,
    )


def move(
    name: NameArgument,
    instance: Annotated[str, typer.Argument(help="Name or host of the instance.")],
    partitions: Annotated[list[str], typer.Argument(help="Partitions, such as topic-0 topic-1.")],
    dry_run: DryRunOption = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move partitions to an instance with the next plan."""
    from headrace.console.datastreams.changes import print_move_plan

    body = {"partitions": partitions, "instance": instance, "requested_by": "headrace datastream move"}
    seconds = seconds_to_wait(wait, timeout, is_done=not dry_run, how="with --dry-run")
    client = connect(at, config)
    answer, location = client.begin("POST", path_of(name) + "/move", body, dry_run=dry_run)
    if seconds is not None:
        await_end(client, location, seconds, as_json=as_json)
    elif as_json:
        print_json(answer)
    elif dry_run:
        print_move_plan(answer)
    else:
        console().print(
            f"{name}: {counted(len(partitions), 'partition')} will move "
            f"to {instance}; follow it with headrace events"
        )


def _by_topic(partitions: list[str]) -> dict[str, str]:
    from mirror.errors import InvalidRequest

    found: dict[str, str] = {}
    for partition in partitions:
        topic, _, numbers = partition.rpartition(":")
        if not topic or not numbers:
            raise InvalidRequest(f"no partitions in {partition!r}", advice="write TOPIC:0,13,2 or TOPIC:*")
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
    dry_run: bool,
    **more: Any,
) -> None:
    """Perform an action on a datastream or its partitions. Print the updated datastream, or the changes of a
    dry run.
    """
    body = {"reason": reason, "requested_by": requested_by, **more}
    answer = client.post(f"{path_of(name)}/{action}", body, dry_run=dry_run)
    show_outcome(answer, as_json=as_json, dry_run=dry_run)


def _act_on_group(
    client: RestClient, prefix: str, action: str, body: dict[str, Any], *, as_json: bool, dry_run: bool
) -> None:
    """Perform an action on a group. Print the updated datastreams, or the changes of a dry run."""
    answer = client.post(f"{path_of_group(prefix)}/{action}", body, dry_run=dry_run)
    if dry_run or as_json:
        show_outcome(answer, as_json=as_json, dry_run=dry_run)
        return
    for datastream in answer["datastreams"]:
        show(datastream, as_json)


def _conclude(
    client: RestClient,
    answer: dict[str, Any],
    location: str,
    seconds: float | None,
    *,
    as_json: bool,
    dry_run: bool,
) -> None:
    """Wait for the operation, or print the updated datastream. There is no operation to wait for if a damaged
    definition was removed."""
    if seconds is not None and location:
        await_end(client, location, seconds, as_json=as_json)
    else:
        show_outcome(answer, as_json=as_json, dry_run=dry_run)


def _end_of(duration: str, until: str) -> dict[str, Any]:
    """Return the fields of a request body that set the end of a pause. Raises InvalidRequest."""
    from headrace.console.durations import milliseconds

    length = {"for_seconds": milliseconds(duration) / 1000} if duration else {}
    return {**length, **({"until": until} if until else {})}
