"""`headrace copy`: copy topics without a running service, up to the current end offsets or continuously."""

from __future__ import annotations

import itertools
import json
import signal
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.commands.options import ConfigOption, JsonOption, choice
from headrace.process.cores import usable_cores

if TYPE_CHECKING:
    from headrace.copy.run import CopyRun, CopySetup
    from mirror.jobs.copy_job import CopyJob
    from mirror.loggers import Level
    from mirror.model.datastreams.lanes import LaneSpec

_PATIENCE_SECONDS: Final = 30.0
_BEGINNINGS: Final = ("earliest", "latest", "earliest-local", "checkpoint")


def copy(
    ctx: typer.Context,
    source: Annotated[
        str, typer.Option(help="Source: a cluster alias, host:port, or a folder of files (file:/folder).")
    ],
    destination: Annotated[
        str, typer.Option(help="Destination: a cluster alias, host:port, or a folder (file:/folder).")
    ],
    topics: Annotated[str, typer.Option(help="Regular expression that matches whole topic names.")],
    exclude: Annotated[str, typer.Option(help="Regular expression of topics to exclude.")] = "",
    rename: Annotated[
        str, typer.Option(help="Topic name at the destination; * stands for the source name.")
    ] = "*",
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop each partition at its current end offset.")
    ] = False,
    guarantee: Annotated[
        str, typer.Option(help="Delivery guarantee: at-least-once, effectively-once or exactly-once.")
    ] = "effectively-once",
    isolation: Annotated[
        str, typer.Option(help="Isolation level: read-committed or read-uncommitted.")
    ] = "read-committed",
    path: Annotated[
        str,
        typer.Option(
            help="Copy path: auto, passthrough (batches stay unopened) or record (record by record)."
        ),
    ] = "auto",
    start: Annotated[
        str,
        typer.Option(
            help="Start position: earliest, latest, earliest-local (oldest record on local disks of brokers),"
            " checkpoint, or a time such as 2026-11-21T08:00:00Z."
        ),
    ] = "earliest",
    former_start: Annotated[
        str, typer.Option("--from", help="Deprecated alias of --start.", hidden=True)
    ] = "",
    start_position: Annotated[
        list[str] | None,
        typer.Option(help="Start offset of one partition, TOPIC:PARTITION=OFFSET; repeatable."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Number of worker processes; 0 means one per usable core.")
    ] = 1,
    state: Annotated[
        str,
        typer.Option(help="Name under which progress is stored; a copy with the same name resumes from it."),
    ] = "",
    on_loss: Annotated[
        str,
        typer.Option(
            help="Action if records were deleted at the source before they were copied: halt or continue."
        ),
    ] = "halt",
    on_rejection: Annotated[
        str, typer.Option(help="Action if the destination rejects a record: pause, dead-letter or skip.")
    ] = "pause",
    transform: Annotated[
        list[str] | None, typer.Option(help="Transform as NAME:TEXT; repeatable, applied in order.")
    ] = None,
    bytes_per_second: Annotated[
        int, typer.Option(min=0, help="Quota of the whole copy in bytes per second; 0 means unlimited.")
    ] = 0,
    replication_factor: Annotated[
        int,
        typer.Option(
            min=-1, max=32_767, help="Replication factor of new topics; -1 means the destination's default."
        ),
    ] = -1,
    exclude_setting: Annotated[
        list[str] | None, typer.Option(help="Topic setting that is not copied to new topics; repeatable.")
    ] = None,
    ignore_settings: Annotated[
        bool,
        typer.Option(
            "--ignore-settings",
            help="Create topics with the destination's defaults if their settings at the source cannot be"
            " read.",
        ),
    ] = False,
    report: Annotated[Path | None, typer.Option(help="File for the report (JSON).")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Copy topics and report the class of every offset."""
    from headrace.clusters.own_topics import own_topics
    from headrace.console.files import write_file
    from headrace.copy.report import document_of, print_outcome, print_plan
    from headrace.copy.run import CopyRun
    from headrace.settings import load_settings

    started = time.monotonic()
    job = replace(_job(ctx.params), own=own_topics(load_settings(config)))
    if report is not None:
        _require_room(report)
    setup = copy_setup(config, job, replication_factor)
    if job.uses_connector:
        _transfer(setup, job, workers, report, keeps_state=bool(state), as_json=as_json)
        return
    run = CopyRun(setup, job, workers or usable_cores())
    plan = run.plan()
    print_plan(plan)
    _follow(run, plan.specs, ends=until_end)
    if (later := run.plan_left_out(plan)) is not None:
        print_plan(later)
        _follow(run, later.specs, ends=until_end)
        plan = plan.followed_by(later)
    document = document_of(job, plan, run.outcome, run.progress.throttled, time.monotonic() - started)
    if document["complete"] and not state:
        run.forget(plan.specs)
    try:
        if report is not None:
            write_file(report, json.dumps(document, indent=2) + "\n")
    finally:  # even if the report cannot be written: the records are copied
        print_outcome(document, as_json=as_json)
    if document["failures"] or (until_end and not document["complete"]):
        raise typer.Exit(1)


def _transfer(
    setup: CopySetup, job: CopyJob, workers: int, report: Path | None, *, keeps_state: bool, as_json: bool
) -> None:
    """Copy from or to a connector, such as files. Raises InvalidRequest for unsupported options."""
    from headrace.console.files import write_file
    from headrace.copy.report import ProgressLine
    from headrace.copy.transfer import TransferRun, print_transfer

    run, line = TransferRun(setup, job, workers=workers, keeps_state=keeps_state), ProgressLine()
    _stop_at_signals(run.stop, signal.default_int_handler)
    document = run.run(line.show)
    line.end()
    try:
        if report is not None:
            write_file(report, json.dumps(document, indent=2) + "\n")
    finally:
        print_transfer(document, as_json=as_json)
    if document["failures"] or (job.until_end and not document["complete"]):
        raise typer.Exit(1)


def _require_room(report: Path) -> None:
    """Check before the copy that the report file can be written. Raises InvalidRequest, OSError."""
    from mirror.errors import InvalidRequest

    if report.is_dir() or not report.parent.is_dir():
        raise InvalidRequest(f"invalid --report {report}: must be a file in an existing folder")
    with report.open("a", encoding="utf-8"):
        """The file is writable."""


def _job(options: Mapping[str, Any]) -> CopyJob:
    from mirror.jobs.copy_job import CopyJob
    from mirror.model.datastreams.datastream import StartPosition
    from mirror.model.datastreams.policy import (
        CopyPath,
        CopyPolicy,
        Guarantee,
        Isolation,
        OnLoss,
        OnRejection,
        checked_excluded_settings,
    )
    from mirror.model.datastreams.start_positions import positions_of_options
    from mirror.model.datastreams.starts import Start, read_start
    from mirror.model.identifiers import ClusterRef
    from mirror.model.topics import TopicNaming, TopicSelection

    given = options["former_start"] or options["start"]
    needs_checkpoint = given == "checkpoint"
    start = Start(StartPosition.EARLIEST)
    if not needs_checkpoint:
        start = read_start("--start", given, _BEGINNINGS)
    return CopyJob(
        state=options["state"] or f"copy-{uuid.uuid4().hex[:12]}",
        source=ClusterRef(options["source"]),
        destination=ClusterRef(options["destination"]),
        selection=TopicSelection(options["topics"], options["exclude"]),
        naming=TopicNaming(options["rename"]),
        policy=CopyPolicy(
            guarantee=choice(Guarantee, "--guarantee", options["guarantee"]),
            isolation=choice(Isolation, "--isolation", options["isolation"]),
            on_loss=choice(OnLoss, "--on-loss", options["on_loss"]),
            on_rejection=choice(OnRejection, "--on-rejection", options["on_rejection"]),
            path=choice(CopyPath, "--path", options["path"]),
            bytes_per_second=options["bytes_per_second"],
            transforms=tuple(options["transform"] or ()),
        ),
        start=start.position,
        start_ms=start.at_ms,
        until_end=options["until_end"],
        needs_checkpoint=needs_checkpoint,
        positions=positions_of_options("--start-position", options["start_position"] or ()),
        excluded_settings=checked_excluded_settings(
            "--exclude-setting", tuple(options["exclude_setting"] or ())
        ),
        ignores_settings=options["ignore_settings"],
    )


def copy_setup(config: Path | None, job: CopyJob, replication_factor: int) -> CopySetup:
    """Return the configuration of the engines of a copy. Raises ConfigError."""
    from headrace.clusters.directory import ClusterDirectory
    from headrace.copy.run import CopySetup
    from headrace.settings import load_settings
    from mirror.replication.connector import is_connector
    from mirror.replication.context import EngineIdentity
    from mirror.worker.pool import PoolLimits

    settings = load_settings(config)
    directory = ClusterDirectory(settings.clusters)
    sides = {"--source": job.source, "--destination": job.destination}
    sides = {option: reference for option, reference in sides.items() if not is_connector(reference)}
    for option, reference in sides.items():
        directory.checked(option, reference)
    identity = EngineIdentity(
        instance=socket.gethostname(),
        client_id=f"headrace-{job.state}",
        progress_topic=settings.mirror.progress_topic,
        replication_factor=replication_factor,
    )
    clusters = {name: directory.resolve(name) for name in sides.values()}
    level: Level = "debug" if settings.logging.level == "debug" else "warning"
    worker = settings.mirror.worker
    limits = PoolLimits(worker.restart_delay_seconds, worker.silence_limit_seconds)
    return CopySetup(clusters, settings.mirror.copying.options(), identity, limits, level)


def _stop_at_signals(stop: Callable[[], None], kill: Callable[[int, FrameType | None], object]) -> None:
    """Call `stop` on the first SIGINT or SIGTERM, and `kill` on further signals."""
    signals = itertools.count()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if next(signals):
            kill(number, frame)
        else:
            stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)


def _follow(run: CopyRun, specs: Sequence[LaneSpec], *, ends: bool) -> None:
    """Show the progress of the copy until the workers have ended.

    Stops at the first SIGINT or SIGTERM, and kills the workers at the second. `ends`: also stop if all
    remaining partitions are paused and no record was copied for `_PATIENCE_SECONDS`.
    """
    from headrace.copy.report import ProgressLine

    _stop_at_signals(run.stop, lambda *_: run.kill())
    line = ProgressLine()
    stuck_since: float | None = None
    with closing(run.run(specs)) as steps:
        for progress in steps:
            now = time.monotonic()
            line.show(progress, now)
            stuck = ends and 0 < progress.remaining <= len(progress.stuck)
            stuck_since = (stuck_since or now) if stuck else None
            if stuck_since is not None and now - stuck_since > _PATIENCE_SECONDS:
                run.stop()
    line.end()
