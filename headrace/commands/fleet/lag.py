"""`headrace lag`: show the lag of each datastream."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from headrace.commands.calls import CallOptions
from headrace.commands.datastreams.connection import complete_name
from headrace.commands.fleet.lanes import state_of
from headrace.console.resources import UNKNOWN, age_text
from headrace.console.terminal import console, print_table
from mirror.wording import counted


def lag(
    name: Annotated[
        str,
        typer.Argument(
            help="Datastream whose partitions are listed (default: a summary of all).",
            autocompletion=complete_name,
        ),
    ] = "",
    call: CallOptions = CallOptions(),
) -> None:
    """Show the lag of each datastream, largest first.

    Datastreams that share tasks are shown in one line.
    """
    if name:
        from headrace.commands.datastreams.reads import lag as lag_of_one

        lag_of_one(name, call)
        return
    found = call.connect().get("/v1/lanes")
    rows = lags_of(found["lanes"])
    silent = [instance["name"] for instance in found["instances"] if instance["state"] != "answered"]
    if call.printed_json({"datastreams": rows, "silent_instances": silent}):
        return
    columns = ["datastream", "partitions", "lag_records", "oldest", "worst", "unknown", "movement"]
    print_table(f"lag of {counted(len(rows), 'datastream')}", columns, [_row(row) for row in rows])
    if silent:
        console().print(f"no response, not included in the sums: {', '.join(silent)}")


def lags_of(lanes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the lag of each datastream, from the response of `GET /v1/lanes`.

    Datastreams with an unknown lag come first, the others in descending order of lag. Records and age are
    None if the lag of every partition is unknown. `unknown`: number of partitions that are not included in
    the sums.
    """
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for lane in lanes:
        groups[lane["datastream"]].append(lane)
    return sorted((_sum_of(name, group) for name, group in groups.items()), key=_urgency)


def _sum_of(name: str, lanes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    records = [lane["lag_records"] for lane in lanes if lane["lag_records"] is not None]
    aged = [lane for lane in lanes if lane["lag_ms"] is not None]
    worst = max(aged, key=lambda partition: partition["lag_ms"], default=None)
    return {
        "datastream": name,
        "partitions": len(lanes),
        "lag_records": sum(records) if records else None,
        "lag_ms": worst["lag_ms"] if worst else None,
        "worst": worst["partition"] if worst and worst["lag_ms"] else None,
        "unknown": len(lanes) - len(records),
        "movement": dict(Counter(map(state_of, lanes)).most_common()),
    }


def _urgency(row: Mapping[str, Any]) -> tuple[bool, float, str]:
    return row["lag_ms"] is not None, -(row["lag_ms"] or 0), row["datastream"]


def _row(datastream: Mapping[str, Any]) -> dict[str, Any]:
    records = UNKNOWN if datastream["lag_records"] is None else datastream["lag_records"]
    numbers = {"lag_records": records, "oldest": age_text(datastream["lag_ms"])}
    states = [f"{count} {state}" for state, count in datastream["movement"].items()]
    return {**datastream, **numbers, "unknown": datastream["unknown"] or None, "movement": ", ".join(states)}
