"""The options `--wait` and `--timeout` of commands that start an operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.console.option_groups import OptionGroup
from headrace.console.terminal import complain, console, print_json
from headrace.errors import EXIT_FAILED

if TYPE_CHECKING:
    from headrace.console.client import RestClient

TimeoutOption = Annotated[
    str, typer.Option(help="Time to wait with --wait, such as 90s, 10m or 1h (default 60s).")
]
_USUAL: Final = "60s"


@dataclass(frozen=True)
class WaitOptions(OptionGroup):
    """Options of commands that can wait until their operation has ended."""

    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the operation is done; exit 1 on failure or timeout.")
    ] = False
    timeout: TimeoutOption = ""

    def seconds(self, *, is_done: bool, how: str) -> float | None:
        """Return the maximum seconds to wait; None without --wait.

        `is_done`: the command starts an operation. `how`: options that prevent the operation, for the error
        message. Raises InvalidRequest for contradictory options.
        """
        from headrace.console.durations import duration_seconds
        from mirror.errors import InvalidRequest

        if self.timeout and not self.wait:
            raise InvalidRequest("--timeout requires --wait")
        if self.wait and not is_done:
            raise InvalidRequest(f"--wait cannot be used {how}, because no operation starts")
        return duration_seconds(self.timeout or _USUAL) if self.wait else None


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
