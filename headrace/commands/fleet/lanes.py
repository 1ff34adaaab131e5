"""`headrace lanes`: show the state of copying of each partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from headrace.commands.calls import CallOptions
from headrace.commands.datastreams.connection import complete_name
from headrace.commands.fleet.severity import severity_of_state
from headrace.console.resources import UNKNOWN, age_text
from headrace.console.terminal import console, print_table
from mirror.wording import counted, rate_text

_FINE: Final = "OK"


def lanes(
    datastream: Annotated[
        str,
        typer.Option(help="Show only lanes of this datastream or its group.", autocompletion=complete_name),
    ] = "",
    instance: Annotated[str, typer.Option(help="Show only lanes of this instance.")] = "",
    movement: Annotated[
        list[str] | None,
        typer.Option(help="Show only lanes in this movement state, such as STALL; repeatable."),
    ] = None,
    troubled: Annotated[bool, typer.Option("--troubled", help="Show only lanes that are not OK.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of lines.")] = 100,
    call: CallOptions = CallOptions(),
) -> None:
    """Show instance, rate, lag and state of each partition.

    The worst state comes first. Within a state, partitions with an unknown lag come first, then those with
    the largest lag."""
    named = {"datastream": datastream, "instance": instance}
    found = call.connect().get("/v1/lanes", **{key: value for key, value in named.items() if value})
    wanted = {word.upper() for word in movement or ()}
    kept = [lane for lane in found["lanes"] if _is_wanted(lane, wanted, troubled)]
    kept.sort(key=_urgency)
    if call.printed_json(found | {"lanes": kept}):
        return
    columns = ["partition", "datastream", "instance", "worker", "phase", "movement", "lag_records", "oldest"]
    columns += ["rate", "reason"]
    print_table(
        f"{len(kept)} of {counted(len(found['lanes']), 'lane')}",
        columns,
        [_row(lane) for lane in kept[:limit]],
    )
    if len(kept) > limit:
        console().print(f"{len(kept) - limit} more; raise --limit, or use --json for all")
    for reply in found["instances"]:
        if reply["state"] != "answered":
            console().print(f"no response from {reply['name']}, {reply['state']}: {reply['reason']}")


def state_of(lane: Mapping[str, Any]) -> str:
    """Return the movement state of a lane, or `?` if unknown."""
    return str(lane["movement"]["state"]) if lane.get("movement") else UNKNOWN


def _is_wanted(lane: Mapping[str, Any], wanted: set[str], only_troubled: bool) -> bool:
    state = state_of(lane)
    return (not wanted or state in wanted) and not (only_troubled and state == _FINE)


def _urgency(lane: Mapping[str, Any]) -> tuple[int, bool, float, str]:
    lag = lane["lag_ms"]
    return severity_of_state(state_of(lane)), lag is not None, -(lag or 0), lane["partition"]


def _row(lane: Mapping[str, Any]) -> dict[str, Any]:
    records, rate = lane["lag_records"], lane["bytes_per_second"]
    movement = lane.get("movement") or {"reason": ""}
    return {
        **{key: lane[key] for key in ("partition", "datastream", "instance", "worker", "phase")},
        "lag_records": UNKNOWN if records is None else records,
        "oldest": age_text(lane["lag_ms"]),
        "rate": UNKNOWN if rate is None else rate_text(rate),
        "movement": state_of(lane),
        "reason": lane["reason"] or movement["reason"],
    }
