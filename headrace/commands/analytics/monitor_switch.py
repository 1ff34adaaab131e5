"""`headrace acting`: may monitors ask for rebalances?"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.datastreams.connection import ReasonOption, WhoOption, connect
from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.terminal import console, print_json
from mirror.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping


class Wish(StrEnum):
    """What a person wants."""

    ON = "on"
    OFF = "off"


def acting(
    wish: Annotated[
        Wish | None, typer.Argument(help="Let monitors ask for rebalances, or forbid it; else only show.")
    ] = None,
    reason: ReasonOption = "",
    requested_by: WhoOption = "",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show whether monitors may ask for rebalances and what they have asked for in a day, or change it."""
    client = connect(at, config)
    if wish is None:
        found = client.get("/v1/monitor")
    else:
        body = {"acting": wish is Wish.ON, "reason": reason}
        by = {"requested_by": requested_by} if requested_by else {}
        found = client.patch("/v1/monitor", body | by, "*")
    if as_json:
        print_json(found)
    else:
        _show(found)


def _show(found: Mapping[str, Any]) -> None:
    switch, waiting = found["acting"], found["waiting"]
    who = f" by {switch['requested_by']}" if switch["requested_by"] else ""
    why = f": {switch['reason']}" if switch["reason"] else ""
    console().print(f"acting of monitors is {'on' if switch['is_on'] else 'off'}{who}{why}")
    console().print(f"judges: {found['holder'] or 'no monitor'}")
    if waiting:
        console().print(f"the rebalance of {waiting} waits for its plan")
    console().print(f"{counted(len(found['acts']), 'rebalance')} asked for in 24 hours")
