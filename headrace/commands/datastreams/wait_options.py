"""The options `--wait` and `--timeout` of commands that begin what takes a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.console.terminal import complain, console, print_json
from headrace.errors import EXIT_FAILED

if TYPE_CHECKING:
    from headrace.console.client import RestClient

WaitOption = Annotated[
    bool, typer.Option("--wait", help="Wait until it is done; exit 1 when it fails or is not in time.")
]
TimeoutOption = Annotated[
    str, typer.Option(help="How long --wait waits at most: 90s, 10m, 1h; without it 60s.", show_default=False)
]
_USUAL: str = "60s"


def seconds_to_wait(wait: bool, timeout: str, *, is_done: bool, how: str) -> float | None:
    """None: nothing is waited for. `is_done`: whether anything is begun; `how`: what the command line says
    where it is not. Raises InvalidRequest for options that contradict each other."""
    from headrace.console.durations import milliseconds
    from mirror.errors import InvalidRequest

    if timeout and not wait:
        raise InvalidRequest("--timeout goes with --wait only")
    if wait and not is_done:
        raise InvalidRequest(f"{how} there is nothing to wait for")
    return milliseconds(timeout or _USUAL) / 1000 if wait else None


def await_end(client: RestClient, location: str, seconds: float, *, as_json: bool) -> None:
    """Wait for an operation, and show it as it ended: the command fails where that has failed. Raises
    TimedOut."""
    from headrace.console.operations import FAILED, wait_for_end

    ended = wait_for_end(client, location, seconds)
    told = f"{ended['datastream']}: {ended['kind']} is {ended['state']}: {ended['sentence']}"
    has_failed = ended["state"] == FAILED
    if as_json:
        print_json(ended)
    elif not has_failed:
        console().print(told)
    if has_failed:
        complain(told)
        raise typer.Exit(EXIT_FAILED)
