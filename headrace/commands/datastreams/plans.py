"""`headrace datastream plan`, `show-plan`, `apply-plan`: a plan is computed, looked at, and put in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.datastreams.connection import NameArgument, ReasonOption, WhoOption, connect
from headrace.commands.datastreams.wait_options import TimeoutOption, WaitOption, await_end, seconds_to_wait
from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.resources import path_of, path_of_plan
from headrace.console.terminal import console, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The plan's id.")]


def plan(
    name: NameArgument,
    full: Annotated[bool, typer.Option(help="Forget the present placement, as far as that pays.")] = False,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute a plan of its tasks by their load, and keep it for an hour; nothing is changed."""
    body = {"full": full, "reason": reason, **_who(requested_by)}
    _show(connect(at, config).post(f"{path_of(name)}/plan", body), as_json=as_json)


def show_plan(
    identity: IdArgument,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a plan that was computed, and whether it is still true."""
    _show(connect(at, config).get(path_of_plan(identity)), as_json=as_json)


def apply_plan(
    identity: IdArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Also a plan without loads over one that was planned by loads.")
    ] = False,
    requested_by: WhoOption = "",
    wait: WaitOption = False,
    timeout: TimeoutOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have exactly this plan put in force, once, if it is still true; else nothing is changed."""
    seconds, client = seconds_to_wait(wait, timeout, is_done=True, how=""), connect(at, config)
    body = {**_who(requested_by), **({"force": True} if force else {})}
    answer, location = client.begin("POST", f"{path_of_plan(identity)}/apply", body)
    if seconds is not None:
        await_end(client, location, seconds, as_json=as_json)
    elif as_json:
        print_json(answer)
    else:
        console().print(f"plan {answer['id']}: {answer['sentence']}; headrace events shows it")


def _who(requested_by: str) -> dict[str, Any]:
    return {"requested_by": requested_by or "command line"}


def _show(answer: Mapping[str, Any], *, as_json: bool) -> None:
    from headrace.console.datastreams.changes import print_proposal

    if as_json:
        print_json(answer)
    else:
        print_proposal(answer)
