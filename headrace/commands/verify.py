"""`headrace verify`: compare topics with their copies, record by record."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.commands.options import ConfigOption, JsonOption, choice
from mirror.wording import counted

if TYPE_CHECKING:
    from mirror.jobs.partition_verdict import PartitionVerdict

_MOST_ROWS: Final = 40


def verify(
    source: Annotated[str, typer.Option(help="Source cluster: an alias, or host:port.")],
    destination: Annotated[str, typer.Option(help="Destination cluster: an alias, or host:port.")],
    topics: Annotated[
        str, typer.Option(help="Regular expression that matches whole topic names at the source.")
    ],
    exclude: Annotated[str, typer.Option(help="Regular expression of topics to exclude.")] = "",
    rename: Annotated[
        str, typer.Option(help="Topic name at the destination; * stands for the source name.")
    ] = "*",
    isolation: Annotated[
        str, typer.Option(help="Isolation level: read-committed or read-uncommitted.")
    ] = "read-committed",
    state: Annotated[
        str,
        typer.Option(
            help="Compare only ranges copied by the headrace copy with this --state, or by this datastream"
            " group."
        ),
    ] = "",
    allow_expired: Annotated[
        bool,
        typer.Option(
            "--allow-expired",
            help="With --state, do not count records that expired at the destination as missing.",
        ),
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Compare topics with their copies.

    Exits with 0 only if all topics are equal. With --state, filtered and dead-lettered records are skipped.
    Without --state, such records count as differences.
    """
    from headrace.clusters.adhoc import one_off, reach
    from headrace.console.terminal import StatusLine, print_json
    from mirror.jobs.verify_job import VerifyJob, verify_copy
    from mirror.model.datastreams.policy import Isolation
    from mirror.model.identifiers import ClusterRef
    from mirror.model.topics import TopicNaming, TopicSelection

    job = VerifyJob(
        ClusterRef(source),
        ClusterRef(destination),
        TopicSelection(topics, exclude),
        TopicNaming(rename),
        choice(Isolation, "--isolation", isolation),
        state,
        allow_expired,
    )
    line = StatusLine(time.monotonic())

    def show(compared: int, partitions: int, offsets: int) -> None:
        if line.is_due(time.monotonic()):
            line.show(
                [
                    f"{compared} of {counted(partitions, 'partition')} compared",
                    f"{counted(offsets, 'offset', form=',')} read",
                ]
            )

    with line, one_off(config, "headrace-verify", source=source, destination=destination) as bench:
        reach(bench, job.source, job.destination)
        verdicts = bench.run(verify_copy(bench, job, show))
    if as_json:
        print_json(
            {
                "equal": all(verdict.is_equal for verdict in verdicts),
                "left_out": sum(verdict.left_out or 0 for verdict in verdicts) if state else None,
                "expired": sum(verdict.expired for verdict in verdicts),
                "partitions": [verdict.to_json() for verdict in verdicts],
            }
        )
    else:
        _print_verdicts(verdicts, knows_left_out=bool(state))
    if not all(verdict.is_equal for verdict in verdicts):
        raise typer.Exit(1)


def _print_verdicts(verdicts: list[PartitionVerdict], *, knows_left_out: bool) -> None:
    from headrace.console.terminal import console, print_table

    unequal = [verdict for verdict in verdicts if not verdict.is_equal]
    records = sum(verdict.comparison.found.counts.equal for verdict in verdicts)
    left_out = sum(verdict.left_out or 0 for verdict in verdicts)
    if left_out:
        console().print(
            f"skipped: {counted(left_out, 'record that was', 'records that were', form=',')} "
            "filtered or dead-lettered"
        )
    if expired := sum(verdict.expired for verdict in verdicts):
        console().print(f"expired at the destination: {counted(expired, 'offset', form=',')} of the copy")
    if not unequal:
        console().print(
            f"{counted(len(verdicts), 'partition is', 'partitions are')} equal, "
            f"{counted(records, 'record', form=',')} compared"
        )
        return
    rows = [
        {
            "partition": str(verdict.partition),
            "equal records": verdict.comparison.found.counts.equal,
            "missing": verdict.missing,
            "altered": verdict.comparison.found.counts.altered,
            "surplus": verdict.surplus,
            "first difference": _first(verdict),
        }
        for verdict in unequal
    ]
    columns = ["partition", "equal records", "missing", "altered", "surplus", "first difference"]
    print_table(f"{len(unequal)} of {counted(len(verdicts), 'partition')} differ", columns, rows[:_MOST_ROWS])
    if not knows_left_out:
        console().print("filtered and dead-lettered records count as differences without --state")


def _first(verdict: PartitionVerdict) -> str:
    if verdict.problem:
        return verdict.problem
    findings = verdict.comparison.found.findings
    if not findings:
        return ""
    first = min(findings, key=lambda finding: (finding.source_offset, finding.target_offset))
    what = f": {first.what}" if first.what else ""
    return f"{first.verdict} at offset {first.source_offset} against {first.target_offset}{what}"
