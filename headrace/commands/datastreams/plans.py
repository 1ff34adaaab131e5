"""`headrace datastream plan`, `show-plan` and `apply-plan`: compute, review and apply a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.calls import CallOptions, CauseOptions, WhoOption
from headrace.commands.datastreams.connection import NameArgument
from headrace.commands.datastreams.wait_options import WaitOptions, await_end
from headrace.console.resources import path_of, path_of_plan
from headrace.console.terminal import console, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the plan.")]


def plan(
    name: NameArgument,
    full: Annotated[
        bool, typer.Option(help="Also move partitions that could stay, if this frees enough capacity.")
    ] = False,
    cause: CauseOptions = CauseOptions(),
    call: CallOptions = CallOptions(),
) -> None:
    """Compute a plan by load without applying it.

    The plan is stored for an hour."""
    body = {"full": full, "reason": cause.reason, **_requester(cause.requested_by)}
    _show(call.connect().post(f"{path_of(name)}/plan", body), as_json=call.as_json)


def show_plan(identity: IdArgument, call: CallOptions = CallOptions()) -> None:
    """Show a computed plan, and whether it is still valid."""
    _show(call.connect().get(path_of_plan(identity)), as_json=call.as_json)


def apply_plan(
    identity: IdArgument,
    force: Annotated[
        bool,
        typer.Option("--force", help="Apply a plan without loads even if it replaces one based on loads."),
    ] = False,
    requested_by: WhoOption = "",
    waiting: WaitOptions = WaitOptions(),
    call: CallOptions = CallOptions(),
) -> None:
    """Apply a computed plan, if it is still valid.

    A plan can be applied once. An outdated plan is rejected without changes."""
    seconds, client = waiting.seconds(is_done=True, how=""), call.connect()
    body = {**_requester(requested_by), **({"force": True} if force else {})}
    answer, location = client.begin("POST", f"{path_of_plan(identity)}/apply", body)
    if seconds is not None:
        await_end(client, location, seconds, as_json=call.as_json)
    elif call.as_json:
        print_json(answer)
    else:
        console().print(f"plan {answer['id']}: {answer['sentence']}; follow it with headrace events")


def _requester(requested_by: str) -> dict[str, Any]:
    return {"requested_by": requested_by or "command line"}


def _show(answer: Mapping[str, Any], *, as_json: bool) -> None:
    from headrace.console.datastreams.changes import print_proposal

    if as_json:
        print_json(answer)
    else:
        print_proposal(answer)
