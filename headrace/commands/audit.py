"""`headrace audit`: compare source and destination of a datastream, and certify the result."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperGroup

from headrace.commands.calls import CallOptions, ServiceOptions
from headrace.commands.datastreams.connection import NameArgument
from headrace.commands.options import ConfigOption, JsonOption
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import StatusLine, console, print_json, print_table, print_text, time_text
from mirror.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typer._click.core import Context
    from typer._click.shell_completion import CompletionItem

    from headrace.clusters.audits import AuditResult, AuditRunResult
    from headrace.settings import HeadraceSettings

_UNKNOWN: Final = "unknown"
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
_WINDOW_COLUMNS: Final = (
    "datastream",
    "topic",
    "window",
    "verdict",
    "count",
    "missing",
    "altered",
    "foreign",
    "duplicated",
    "explained",
    "late",
    "tiers",
)
_MOST_ROWS: Final = 40

KeyOption = Annotated[
    Path | None,
    typer.Option("--key", help="Ed25519 key, PEM (default: commands.audit_key_file of the settings)."),
]


class DefaultCommandGroup(TyperGroup):
    """Command group with a default command: `headrace audit NAME` means `headrace audit compare NAME`.

    `default`: name of the default command.
    """

    default: ClassVar[str] = "compare"

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Insert the default command unless the arguments name a command or request help."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands and the arguments of the default command."""
        argument = self.commands[self.default].params[0]
        return [*super().shell_complete(ctx, incomplete), *argument.shell_complete(ctx, incomplete)]


app = CommandGroup(cls=DefaultCommandGroup, no_args_is_help=True)


@app.command()
def compare(
    datastream: NameArgument,
    watch: Annotated[
        bool, typer.Option("--watch", help="Repeat until interrupted, and show the watermark.")
    ] = False,
    interval: Annotated[
        str, typer.Option(help="With --watch, time between comparisons, such as 30s.")
    ] = "10s",
    lateness: Annotated[
        str,
        typer.Option(
            help="With --watch, maximum time from the timestamp of a record to its arrival at the source."
        ),
    ] = "5m",
    call: CallOptions = CallOptions(),
) -> None:
    """Compare every record at both ends of a datastream.

    Exits with 1 if any record is missing, altered, out of order or foreign (not from the source), or
    duplicated unless the guarantee is at-least-once. Records that the checkpoints classify as filtered or
    dead-lettered are skipped, and not counted as missing.

    With --watch, each comparison reads the records copied since the previous comparison, and shows the time
    before which every record of the source is at the destination. With --json, each comparison is one line.
    """
    from headrace.clusters.audits import audit_datastream
    from headrace.console.resources import path_of
    from headrace.settings import load_settings

    definition = call.connect().get(path_of(datastream))
    if watch:
        _watch(load_settings(call.config), definition, interval, lateness, as_json=call.as_json)
        return
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
        results = audit_datastream(load_settings(call.config), definition, show)
    if not call.printed_json([result.to_json() for result in results]):
        _print(datastream, results)
    if not all(result.is_complete for result in results):
        raise typer.Exit(1)


def _watch(
    settings: HeadraceSettings, definition: Mapping[str, Any], interval: str, lateness: str, *, as_json: bool
) -> None:
    """Audit a datastream until interrupted. Exit with 1 if a comparison has found a difference."""
    from headrace.clusters.audits import watch_datastream
    from headrace.console.durations import duration_seconds, milliseconds

    pause_seconds, lateness_ms = duration_seconds(interval), milliseconds(lateness)
    has_difference = False
    try:
        for run in watch_datastream(settings, definition, pause_seconds, lateness_ms):
            has_difference |= not all(result.is_complete for result in run.results)
            if as_json:
                print_json(run.to_json(), None)
            else:
                _print_run(definition["name"], run)
    except KeyboardInterrupt:
        raise typer.Exit(1 if has_difference else 0) from None


def _print_run(datastream: str, run: AuditRunResult) -> None:
    console().print(f"{datastream}: complete through {time_text(run.through_ms, _UNKNOWN)}")
    for result in run.results:
        row = result.to_json()
        through = time_text(run.by_topic.get(result.topic), _UNKNOWN)
        console().print(
            f"  {result.topic}: {counted(row['source_records'], 'record', form=',')}, {result.verdict}, "
            f"complete through {through}"
        )
        for problem in result.problems:
            console().print(f"    {problem}")
        for place, finding in result.findings:
            offsets = f"offset {_offset(finding.source_offset)} against {_offset(finding.target_offset)}"
            console().print(f"    {finding.verdict} in {place}: {offsets} {finding.what}".rstrip())
    if run.problem:
        console().print(f"  {run.problem}")


@app.command()
def windows(
    datastream: Annotated[str | None, typer.Argument(help="Datastream (default: all).")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="First window, such as 2026-11-21T08:00:00Z.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add up the windows of continuous audits, and compare tiers.

    Reads the audit topic (setting mirror.audit.topic), to which producers and consumers can also publish
    counts. Exits with 1 if a window is late or has differences, or if two tiers counted different numbers of
    records.
    """
    from headrace.clusters.audits import audited_windows
    from headrace.settings import load_settings
    from mirror.model.datastreams.starts import read_start

    since_ms = (read_start("--from", since, ()).at_ms or 0) if since is not None else 0
    found = audited_windows(load_settings(config), datastream, since_ms)
    found = [total for total in found if total.start_ms >= since_ms]
    rows = [total.to_json() for total in found]
    if as_json:
        print_json(rows)
    else:
        shown = [row | _window_texts(row) for row in rows]
        print_table("audited windows", list(_WINDOW_COLUMNS), shown)
    if not all(total.is_complete for total in found):
        raise typer.Exit(1)


def _window_texts(row: Mapping[str, Any]) -> dict[str, str]:
    tiers = ", ".join(f"{tier} {number}" for tier, number in sorted(row["tiers"].items()))
    return {"window": time_text(row["start_ms"], _UNKNOWN), "tiers": tiers}


@app.command()
def certify(
    datastream: NameArgument,
    since: Annotated[
        str, typer.Option("--from", help="Start of the period: 2026-11-21T08:00:00Z, or epoch milliseconds.")
    ],
    until: Annotated[str, typer.Option("--to", help="End of the period (exclusive).")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write (default: stdout).")
    ] = None,
    key: KeyOption = None,
    service: ServiceOptions = ServiceOptions(),
) -> None:
    """Certify the records of a period, and sign the result.

    Compares every record of the period like `headrace audit`. Writes the certificate in any case, and exits
    with 1 unless all records of the period are copied, and no record is missing, altered, out of order or
    foreign (not from the source), or duplicated unless the guarantee is at-least-once.
    """
    from headrace.clusters.adhoc import bench_of, reach
    from headrace.clusters.audits import audit_job, may_repeat
    from headrace.clusters.directory import ClusterDirectory
    from headrace.console.resources import path_of
    from headrace.settings import load_settings
    from mirror.audit.certificate import sign, signing_key
    from mirror.errors import InvalidRequest
    from mirror.files import replace_file
    from mirror.jobs.certify_job import Period, is_clean
    from mirror.jobs.certify_job import certify as certified
    from mirror.model.datastreams.starts import read_start

    settings = load_settings(service.config)
    private = signing_key(key_of(settings, key))
    from_ms, to_ms = (read_start(name, text, ()).at_ms for name, text in (("--from", since), ("--to", until)))
    period = Period(from_ms or 0, to_ms or 0)
    if period.from_ms >= period.to_ms:
        raise InvalidRequest("--from must be before --to")
    definition = service.connect().get(path_of(datastream))
    job = audit_job(definition)
    with bench_of(settings, "headrace-audit", ClusterDirectory(settings.clusters)) as bench:
        reach(bench, job.source, job.destination)
        document = bench.run(certified(bench, job, datastream, period))
    written = sign(document, private)
    if output is None:
        print_text(written.decode().removesuffix("\n"))
    else:
        replace_file(output, written)
    if not is_clean(document, may_repeat=may_repeat(definition)):
        raise typer.Exit(1)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Certificate file of headrace audit certify.")],
    key: KeyOption = None,
    against_clusters: Annotated[
        bool, typer.Option("--against-clusters", help="Compare the certified offsets again.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the signature of a certificate, and optionally its contents.

    Exits with 1 if the certificate was altered or, with --against-clusters, if the records of a partition
    differ from the certificate.
    """
    from headrace.clusters.adhoc import bench_of, reach
    from headrace.clusters.directory import ClusterDirectory
    from headrace.settings import load_settings
    from mirror.audit.certificate import read_certificate, verification_key
    from mirror.jobs.certify_job import certified_job, changed_since

    settings = load_settings(config)
    document = read_certificate(content_of(file), verification_key(key_of(settings, key)))
    changed = []
    if against_clusters:
        job, _ = certified_job(document)
        with bench_of(settings, "headrace-audit", ClusterDirectory(settings.clusters)) as bench:
            reach(bench, job.source, job.destination)
            changed = bench.run(changed_since(bench, document))
    if as_json:
        print_json({"certificate": document, "changed": [place._asdict() for place in changed]})
    else:
        records = sum(part["source"]["records"] for part in document["partitions"])
        console().print(
            f"signature is valid: {document['datastream']}, {counted(records, 'record', form=',')}, "
            f"verdict {document['verdict']}"
        )
        for place in changed:
            console().print(f"{place} is not as certified")
    if changed:
        raise typer.Exit(1)


def key_of(settings: HeadraceSettings, key: Path | None) -> bytes:
    """Return the content of the file with the signing key. Raises ConfigError."""
    from mirror.errors import ConfigError

    file = key or (Path(settings.commands.audit_key_file) if settings.commands.audit_key_file else None)
    if file is None:
        raise ConfigError("no signing key", advice="pass --key, or set commands.audit_key_file")
    return content_of(file)


def content_of(file: Path) -> bytes:
    """Return the bytes of a key or certificate file. Raises ConfigError."""
    from mirror.errors import ConfigError

    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error


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
    for problem in (problem for result in results for problem in result.problems):
        console().print(f"not compared: {problem}")
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
    if repeated := sum(result.repeated for result in results):
        console().print(f"the guarantee of {datastream} excludes the {counted(repeated, 'duplicate')}")
    if any(result.at_least for result in results):
        console().print("too many differences to compare all: the counts are estimates")


def _offset(offset: int) -> str:
    return str(offset) if offset >= 0 else "none"
