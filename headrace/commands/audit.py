"""`headrace audit`: compare both ends of a datastream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import typer

from headrace.commands.datastreams.connection import NameArgument, connect
from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.terminal import StatusLine, console, print_json, print_table
from mirror.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.clusters.audits import AuditResult

_COLUMNS: Final = (
    "topic",
    "source_records",
    "destination_records",
    "missing",
    "altered",
    "reordered",
    "foreign",
    "duplicates",
    "left_out",
    "unjudged",
)
_MOST_ROWS: Final = 40


def audit(
    datastream: NameArgument,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare every record at both ends of a datastream.

    Exits with 1 if any record is missing, altered, out of order or foreign. Records that the checkpoints
    classify as filtered or dead-lettered are skipped, and not counted as missing.
    """
    from headrace.clusters.audits import audit_datastream
    from headrace.console.resources import path_of
    from headrace.settings import load_settings

    definition = connect(at, config).get(path_of(datastream))
    line = StatusLine(time.monotonic())

    def show(compared: int, partitions: int, offsets: int) -> None:
        if line.is_due(time.monotonic()):
            line.show(
                [
                    f"{compared} of {counted(partitions, 'partition')} compared",
                    f"{counted(offsets, 'offset', form=',')} read at both ends",
                ]
            )

    with line:
        results = audit_datastream(load_settings(config), definition, show)
    if as_json:
        print_json([result.to_json() for result in results])
    else:
        _print(datastream, results)
    if not all(result.is_complete for result in results):
        raise typer.Exit(1)


def _print(datastream: str, results: Sequence[AuditResult]) -> None:
    rows = [result.to_json() for result in results]
    print_table(f"audit of {datastream} up to its checkpoints", list(_COLUMNS), rows)
    findings = [
        {
            "verdict": finding.verdict.value,
            "partition": str(place),
            "source offset": _offset(finding.source_offset),
            "destination offset": _offset(finding.target_offset),
            "difference": finding.what,
        }
        for result in results
        for place, finding in result.findings
    ]
    if findings:
        print_table("first differences", list(findings[0]), findings[:_MOST_ROWS])
    behind, left_out, expired = (sum(row[key] for row in rows) for key in ("unjudged", "left_out", "expired"))
    if behind:
        console().print(f"not compared: {counted(behind, 'source offset')} beyond the checkpoints")
    if left_out:
        console().print(
            f"skipped: {counted(left_out, 'record that was', 'records that were')} "
            "filtered or dead-lettered according to the checkpoints"
        )
    if expired:
        console().print(f"expired at the destination: {counted(expired, 'offset')} of the copy")
    if any(result.at_least for result in results):
        console().print("too many differences to compare all: the counts are estimates")


def _offset(offset: int) -> str:
    return str(offset) if offset >= 0 else ""
