"""`headrace datastream lost`, `restore` and `forget`: datastreams that the coordination store has lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.calls import CallOptions, CauseOptions
from headrace.commands.datastreams.connection import show_outcome
from headrace.console.resources import LOST_DATASTREAMS, path_of_lost
from headrace.console.terminal import complain, console, print_json, print_table

if TYPE_CHECKING:
    from headrace.console.client import RestClient

LostNameArgument = Annotated[str, typer.Argument(help="Name of the lost datastream, unless --all is given.")]
AllOption = Annotated[bool, typer.Option("--all", help="All lost datastreams.")]


def lost(call: CallOptions = CallOptions()) -> None:
    """List datastreams missing from the coordination store."""
    found = call.connect().get(LOST_DATASTREAMS)
    if call.printed_json(found):
        return
    rows = [
        {
            "name": datastream["name"],
            "status": datastream["status"],
            "from": f"{datastream['source']['cluster']}/{datastream['source']['topics']}",
            "to": f"{datastream['destination']['cluster']}/{datastream['destination']['name']}",
            "owner": datastream["owner"],
        }
        for datastream in found
    ]
    print_table("lost datastreams", ["name", "status", "from", "to", "owner"], rows)


def restore(
    name: LostNameArgument = "",
    everything: AllOption = False,
    cause: CauseOptions = CauseOptions(),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which partitions would start or move.")
    ] = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Restore a lost datastream from its checkpoints."""
    client = call.connect()

    def restore_one(name: str) -> Any:
        answer = client.post(f"{path_of_lost(name)}/restore", cause.fields, dry_run=dry_run)
        if not call.as_json:
            show_outcome(answer, as_json=False, dry_run=dry_run)
        return answer

    _each(client, name, restore_one, everything=everything, as_json=call.as_json)


def forget(
    name: LostNameArgument = "",
    everything: AllOption = False,
    cause: CauseOptions = CauseOptions(),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the datastreams without dropping them.")
    ] = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Drop a lost datastream; keep topics and checkpoints."""
    client = call.connect()

    def forget_one(name: str) -> Any:
        answer = client.delete(path_of_lost(name), dry_run=dry_run, **cause.fields)
        if not call.as_json:
            console().print(f"{name}: {'would be dropped' if dry_run else 'dropped'}")
        return answer

    _each(client, name, forget_one, everything=everything, as_json=call.as_json)


def _each(
    client: RestClient, name: str, act: Callable[[str], Any], *, everything: bool, as_json: bool
) -> None:
    """Perform an action on the named lost datastream or, with --all, on every lost datastream.

    With --all, a failure does not stop the command. Raises InvalidRequest unless exactly one of the name and
    --all is given.
    """
    from headrace.errors import EXIT_FAILED
    from mirror.errors import HeadraceError, InvalidRequest, Unreachable

    if bool(name) == everything:
        raise InvalidRequest("pass the name of a lost datastream, or --all")
    names = [datastream["name"] for datastream in client.get(LOST_DATASTREAMS)] if everything else [name]
    answers = []
    for lost in names:
        try:
            answers.append(act(lost))
        except HeadraceError as error:
            if not everything or isinstance(error, Unreachable):
                raise
            complain(f"{lost}: {error}")
    if as_json:
        print_json(answers if everything else answers[0])
    if len(answers) < len(names):
        raise typer.Exit(EXIT_FAILED)
