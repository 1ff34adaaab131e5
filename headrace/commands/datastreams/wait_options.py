"""The options `--wait` and `--timeout` of commands that start an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.console.terminal import complain, console, print_json
from headrace.errors import EXIT_FAILED

if TYPE_CHECKING:
    from headrace.console.client import RestClient

WaitOption = Annotated[
    bool, typer.Option("--wait", help="Wait until the operation is done; exit 1 on failure or timeout.")
]
TimeoutOption = Annotated[
    str,
    typer.Option(help="Time to wait with --wait, such as 90s, 10m or 1h (default 60s).", show_default=False),
]
_USUAL: str = "60s"


def seconds_to_wait(wait: bool, timeout: str, *, is_done: bool, how: str) -> float | None:
    """Return the time to wait in seconds; None without --wait.

    `is_done`: whether the command starts an operation. `how`: options that prevent the operation, for the
    error. Raises InvalidRequest for contradicting options.
    """
    from headrace.console.durations import milliseconds
    from mirror.errors import InvalidRequest

    if timeout and not wait:
        raise InvalidRequest("--timeout requires --wait")
    if wait and not is_done:
        raise InvalidRequest(f"--wait cannot be used {how}, because no operation starts")
    return milliseconds(timeout or _USUAL) / 1000 if wait else None


def await_end(client: RestClient, location: str, seconds: float, *, as_json: bool) -> None:
    """Wait for an operation and print its result. Exits with 1 if the operation failed. Raises TimedOut."""
    from headrace.console.operations import FAILED, wait_for_end

    ended = wait_for_end(client, location, seconds)
    text = f"{ended['datastream']}: {ended['kind']} is {ended['state']}: {ended['sentence']}"
    has_failed = ended["state"] == FAILED
    if as_json:
        print_json(ended)
    elif not has_failed:
        console().print(text)
    if has_failed:
        complain(text)
        raise typer.Exit(EXIT_FAILED)
