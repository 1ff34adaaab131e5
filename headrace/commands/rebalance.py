"""`headrace rebalance`: place the partitions of a datastream by load."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.commands.calls import CallOptions
from headrace.commands.datastreams.connection import NameArgument
from headrace.commands.datastreams.wait_options import WaitOptions, await_end
from headrace.console.datastreams.changes import print_tasks
from headrace.console.terminal import console, print_table


def rebalance(
    datastream: NameArgument,
    full: Annotated[bool, typer.Option(help="Ignore the current placement.")] = False,
    apply: Annotated[bool, typer.Option(help="Apply the plan (default: dry run).")] = False,
    reason: Annotated[str, typer.Option(help="Reason recorded in the events.")] = "requested manually",
    waiting: WaitOptions = WaitOptions(),
    call: CallOptions = CallOptions(),
) -> None:
    """Rebalance a datastream by load (dry run unless --apply)."""
    body = {
        "datastream": datastream,
        "full": full,
        "dry_run": not apply,
        "requested_by": "command line",
        "reason": reason,
    }
    seconds = waiting.seconds(is_done=apply, how="without --apply")
    client = call.connect()
    answer, location = client.begin("POST", "/v1/rebalance", body)
    if seconds is not None:
        await_end(client, location, seconds, as_json=call.as_json)
        return
    if call.printed_json(answer):
        return
    console().print(answer["sentence"])
    for why in answer["reasons"]:
        console().print(f"- {why}")
    print_tasks(answer)
    if answer["moves"]:
        columns = ["partition", "from_task", "to_task", "from_instance", "to_instance", "reason"]
        print_table("moves", columns, answer["moves"])
