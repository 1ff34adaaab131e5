"""`headrace acting`: allow or forbid automatic rebalances."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.calls import CallOptions, CauseOptions
from headrace.console.terminal import console
from mirror.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping


class SwitchState(StrEnum):
    """Requested state of the switch for automatic rebalances."""

    ON = "on"
    OFF = "off"


def acting(
    wish: Annotated[
        SwitchState | None,
        typer.Argument(help="on allows monitors to request rebalances, off forbids it (default: show)."),
    ] = None,
    cause: CauseOptions = CauseOptions(),
    call: CallOptions = CallOptions(),
) -> None:
    """Show or set whether monitors may request rebalances.

    Also shows the rebalances that monitors requested in the last 24 hours."""
    client = call.connect()
    if wish is None:
        found = client.get("/v1/monitor")
    else:
        body = {"acting": wish is SwitchState.ON, **cause.given_fields}
        found = client.patch("/v1/monitor", body, "*")
    if not call.printed_json(found):
        _show(found)


def _show(found: Mapping[str, Any]) -> None:
    switch, waiting = found["acting"], found["waiting"]
    requester = f" by {switch['requested_by']}" if switch["requested_by"] else ""
    why = f": {switch['reason']}" if switch["reason"] else ""
    console().print(f"automatic rebalancing is {'on' if switch['is_on'] else 'off'}{requester}{why}")
    console().print(f"objectives are checked by {found['holder'] or 'no monitor'}")
    if waiting:
        console().print(f"waiting for the plan of the rebalance of {waiting}")
    console().print(f"{counted(len(found['acts']), 'rebalance')} requested in 24 hours")
