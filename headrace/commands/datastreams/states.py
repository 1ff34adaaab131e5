"""`headrace datastream …`: commands that change the state of a datastream or of partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.calls import CallOptions, CauseOptions, WhoOption
from headrace.commands.datastreams.connection import NameArgument, show, show_outcome
from headrace.commands.datastreams.wait_options import WaitOptions, await_end
from headrace.console.option_groups import OptionGroup
from headrace.console.resources import path_of, path_of_group
from headrace.console.terminal import console, print_json
from mirror.wording import counted

if TYPE_CHECKING:
    from headrace.console.client import RestClient


@dataclass(frozen=True)
class PauseEnd(OptionGroup):
    """Options that determine when a pause ends."""

    duration: Annotated[
        str, typer.Option("--for", help="Duration, such as 90m or 6h (default: until resumed).")
    ] = ""
    until: Annotated[
        str, typer.Option(help="End time, such as 2027-01-31T18:00:00Z (default: until resumed).")
    ] = ""

    @property
    def fields(self) -> dict[str, Any]:
        """Request fields that determine when a pause ends. Raises InvalidRequest."""
        from headrace.console.durations import duration_seconds

        length = {"for_seconds": duration_seconds(self.duration)} if self.duration else {}
        return {**length, **({"until": self.until} if self.until else {})}


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
    cause: CauseOptions = CauseOptions(),
    end: PauseEnd = PauseEnd(),
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Pause copying for a time or until resumed.

    Checkpoints and tasks are kept."""
    _act(call, name, "pause", {**cause.fields, **end.fields}, dry_run=dry_run)


def resume(
    name: NameArgument,
    cause: CauseOptions = CauseOptions(),
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Resume copying from the checkpoints."""
    _act(call, name, "resume", cause.fields, dry_run=dry_run)


def stop(
    name: NameArgument,
    cause: CauseOptions = CauseOptions(),
    dry_run: DryRunOption = False,
    waiting: WaitOptions = WaitOptions(),
    call: CallOptions = CallOptions(),
) -> None:
    """Drain and stop a datastream, and release its tasks."""
    seconds = waiting.seconds(is_done=not dry_run, how="with --dry-run")
    client = call.connect()
    answer, location = client.begin("POST", f"{path_of(name)}/stop", cause.fields, dry_run=dry_run)
    _conclude(client, answer, location, seconds, as_json=call.as_json, dry_run=dry_run)


def delete(
    name: NameArgument,
    cause: CauseOptions = CauseOptions(),
    dry_run: DryRunOption = False,
    waiting: WaitOptions = WaitOptions(),
    call: CallOptions = CallOptions(),
) -> None:
    """Delete a datastream; keep destination topics."""
    seconds = waiting.seconds(is_done=not dry_run, how="with --dry-run")
    client = call.connect()
    answer, location = client.begin("DELETE", path_of(name), dry_run=dry_run, **cause.fields)
    _conclude(client, answer, location, seconds, as_json=call.as_json, dry_run=dry_run)


def pause_partitions(
    name: NameArgument,
    partitions: PartitionsArgument,
    reason: Annotated[str, typer.Option(help="Reason, recorded and displayed with the action.")],
    requested_by: WhoOption = "",
    end: PauseEnd = PauseEnd(),
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Pause partitions for a time or until resumed.

    Other partitions continue."""
    body = {"reason": reason, "requested_by": requested_by, "partitions": _by_topic(partitions), **end.fields}
    _act(call, name, "pause-partitions", body, dry_run=dry_run)


def resume_partitions(
    name: NameArgument,
    partitions: PartitionsArgument,
    cause: CauseOptions = CauseOptions(),
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Resume paused partitions from their checkpoints."""
    body = {**cause.fields, "partitions": _by_topic(partitions)}
    _act(call, name, "resume-partitions", body, dry_run=dry_run)


def pause_group(
    prefix: PrefixArgument,
    cause: CauseOptions = CauseOptions(),
    end: PauseEnd = PauseEnd(),
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Pause all datastreams that share tasks, atomically."""
    _act_on_group(call, prefix, "pause", {**cause.fields, **end.fields}, dry_run=dry_run)


def resume_group(
    prefix: PrefixArgument,
    cause: CauseOptions = CauseOptions(),
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Resume all datastreams that share tasks, atomically."""
    _act_on_group(call, prefix, "resume", cause.fields, dry_run=dry_run)


def restart_from(
    name: NameArgument,
    start: Annotated[
        str,
        typer.Argument(help="Start position: earliest, earliest-local, or a time such as 2027-01-31T18:00Z."),
    ],
    allow_duplicates: Annotated[
        bool, typer.Option("--allow-duplicates", help="Restart even if the destination contains records.")
    ] = False,
    cause: CauseOptions = CauseOptions(),
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Copy again from START to a rebuilt destination."""
    body = {**cause.fields, "start": start, "allow_duplicates": allow_duplicates}
    _act(call, name, "restart-from", body, dry_run=dry_run)


def move(
    name: NameArgument,
    instance: Annotated[str, typer.Argument(help="Name or host of the instance.")],
    partitions: Annotated[list[str], typer.Argument(help="Partitions, such as topic-0 topic-1.")],
    dry_run: DryRunOption = False,
    waiting: WaitOptions = WaitOptions(),
    call: CallOptions = CallOptions(),
) -> None:
    """Move partitions to an instance with the next plan."""
    from headrace.console.datastreams.changes import print_move_plan

    body = {"partitions": partitions, "instance": instance, "requested_by": "headrace datastream move"}
    seconds = waiting.seconds(is_done=not dry_run, how="with --dry-run")
    client = call.connect()
    answer, location = client.begin("POST", path_of(name) + "/move", body, dry_run=dry_run)
    if seconds is not None:
        await_end(client, location, seconds, as_json=call.as_json)
    elif call.as_json:
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


def _act(call: CallOptions, name: str, action: str, body: dict[str, Any], *, dry_run: bool) -> None:
    """Perform an action on a datastream or its partitions, and print the result.

    For a dry run, prints the changes.
    """
    answer = call.connect().post(f"{path_of(name)}/{action}", body, dry_run=dry_run)
    show_outcome(answer, as_json=call.as_json, dry_run=dry_run)


def _act_on_group(
    call: CallOptions, prefix: str, action: str, body: dict[str, Any], *, dry_run: bool
) -> None:
    """Perform an action on the datastreams that share tasks, and print the result. For a dry run, print the
    changes."""
    answer = call.connect().post(f"{path_of_group(prefix)}/{action}", body, dry_run=dry_run)
    if dry_run or call.as_json:
        show_outcome(answer, as_json=call.as_json, dry_run=dry_run)
        return
    for datastream in answer["datastreams"]:
        show(datastream, as_json=False)


def _conclude(
    client: RestClient,
    answer: dict[str, Any],
    location: str,
    seconds: float | None,
    *,
    as_json: bool,
    dry_run: bool,
) -> None:
    """Wait for the operation to end, or print the updated datastream.

    If a damaged definition was removed, there is no operation to wait for.
    """
    if seconds is not None and location:
        await_end(client, location, seconds, as_json=as_json)
    else:
        show_outcome(answer, as_json=as_json, dry_run=dry_run)
