"""`headrace usage`: bytes, records, CPU time and transfer cost of each owner, datastream, topic and day."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.commands.calls import CallOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DAY_MS: Final = 86_400_000
_TIMEOUT_SECONDS: Final = 90.0
_LINES: Final = 100_000
_COLUMNS: Final = ("owner", "datastream", "source", "destination", "topic")
_FIGURES: Final = ("bytes", "records", "batches", "cpu_seconds", "cost")


def usage(
    owner: Annotated[str, typer.Option(help="Show only datastreams of this owner.")] = "",
    datastream: Annotated[str, typer.Option(help="Only this datastream.")] = "",
    since: Annotated[str, typer.Option(help="Length of the period in whole days, such as 30d.")] = "30d",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every topic and day as CSV.")] = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Show usage and transfer cost by owner, datastream, topic and day."""
    from headrace.console.durations import milliseconds
    from headrace.console.terminal import error_console, print_json
    from mirror.errors import InvalidRequest
    from mirror.wording import counted

    if as_csv and call.as_json:
        raise InvalidRequest("--csv and --json are mutually exclusive")
    days = -(-milliseconds(since, 366 * _DAY_MS) // _DAY_MS)
    filters = {"owner": owner, "datastream": datastream}
    query = {name: value for name, value in filters.items() if value}
    found = call.connect(_TIMEOUT_SECONDS).get("/v1/usage", days=days, limit=_LINES, **query)
    if call.as_json:
        print_json(found)
    elif as_csv:
        _write_csv(found)
    else:
        _show(found, days)
    if found["left_out"] and not call.as_json:
        left = counted(found["left_out"], "line is", "lines are")
        error_console().print(f"{left} not shown: choose fewer days, an owner or a datastream")


def _write_csv(found: Mapping[str, Any]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["day", *_COLUMNS, *_FIGURES, "currency"])
    for line in found["lines"]:
        figures = ["" if line[name] is None else line[name] for name in _FIGURES]
        names = [line[name] for name in _COLUMNS]
        writer.writerow([_day(line["day_ms"]), *names, *figures, found["currency"]])


def _show(found: Mapping[str, Any], days: int) -> None:
    from headrace.console.terminal import console, print_table
    from mirror.wording import counted

    source = "Pinot" if found["measured_by"] == "pinot" else "the metrics topic"
    title = f"usage by owner, {counted(days, 'day')}, measured by {source}, cost in {found['currency']}"
    columns = ["owner", *_FIGURES, "quota_bytes_per_second", "quota_used"]
    owners = [_shown(owner) | {"quota_used": _percent(owner["quota_share"])} for owner in found["owners"]]
    print_table(title, columns, owners)
    if not owners:
        console().print("nothing was copied in this period")
        return
    print_table("by datastream", ["owner", "datastream", *_FIGURES], _by_datastream(found["lines"]))


def _by_datastream(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        known = sums.setdefault((line["owner"], line["datastream"]), dict.fromkeys(_FIGURES, 0))
        for name in _FIGURES:
            is_known = known[name] is not None and line[name] is not None
            known[name] = known[name] + line[name] if is_known else None
    return [
        {"owner": owner, "datastream": name, **_shown(figures)}
        for (owner, name), figures in sorted(sums.items(), key=lambda entry: (-entry[1]["bytes"], entry[0]))
    ]


def _shown(figures: Mapping[str, Any]) -> dict[str, Any]:
    cost = None if figures["cost"] is None else f"{figures['cost']:.2f}"
    return {**figures, "cpu_seconds": round(figures["cpu_seconds"], 1), "cost": cost}


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _day(day_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(day_ms / 1_000, UTC).date().isoformat()
