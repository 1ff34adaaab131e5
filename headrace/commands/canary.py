"""`headrace canary`: measure the delivery of one record per second, as a check before a release."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.commands.calls import CallOptions, connect
from headrace.commands.datastreams.connection import complete_name
from mirror.bulkheads import Bulkhead
from mirror.wording import counted

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.clusters.directory import ClusterDirectory
    from headrace.copy.run import CopyRun
    from mirror.adapters.kafka_admin import KafkaAdmin
    from mirror.jobs.copy_job import CopyPlan
    from monitor.canary.canary_watch import CanaryPath
    from monitor.canary.gate import GateResult
    from monitor.canary.ledger import CanaryFigures

_COPY_STOP_SECONDS: Final = 60.0
_CREATION_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.3


def canary(
    datastream: Annotated[
        str, typer.Argument(help="Datastream with a canary (option --canary).", autocompletion=complete_name)
    ] = "",
    source: Annotated[
        str, typer.Option(help="Instead of a datastream: source cluster, an alias or host:port.")
    ] = "",
    destination: Annotated[
        str, typer.Option(help="Destination cluster; the command copies the canary itself.")
    ] = "",
    duration: Annotated[str, typer.Option("--for", help="Time to measure, such as 30s or 10m.")] = "10m",
    max_delay: Annotated[str, typer.Option(help="Maximum allowed delay of a record.")] = "2s",
    max_lost: Annotated[int, typer.Option(min=0, help="Maximum allowed number of lost records.")] = 0,
    min_availability: Annotated[
        float, typer.Option(min=0, max=100, help="Minimum percentage of writes that the source acknowledges.")
    ] = 99.0,
    call: CallOptions = CallOptions(),
) -> None:
    """Write one record a second and measure its arrival.

    Exits with 1 if a limit was not met: records were lost or late, or the source did not acknowledge writes.
    """
    from headrace.clusters.directory import ClusterDirectory
    from headrace.console.durations import duration_seconds, milliseconds
    from headrace.console.terminal import StatusLine
    from headrace.oncall.canaries import probes_of
    from headrace.oncall.canary_gate import run_gate
    from headrace.settings import load_settings
    from mirror.errors import InvalidRequest
    from monitor.canary.gate import GateLimits

    if not 0 <= min_availability <= 100:  # not a number
        raise InvalidRequest(f"--min-availability {min_availability}: not a percentage from 0 to 100")
    settings = load_settings(call.config)
    seconds, line = duration_seconds(duration), StatusLine(time.monotonic())
    limits = GateLimits(milliseconds(max_delay), max_lost, min_availability / 100)
    path = _path(datastream, source, destination, call.at, call.config)
    directory = ClusterDirectory(settings.clusters)  # an operator may use any address
    probe = probes_of(directory)(path)

    def show(figures: CanaryFigures) -> None:
        if line.is_due(time.monotonic()):
            line.show([_progress(figures)])

    with _own_copy(call.config, directory, path) if source else nullcontext():
        with line:
            result = run_gate(probe, limits, seconds, show)
        _print(path, result, as_json=call.as_json)  # even if the topics cannot be deleted
    if not result.is_passed:
        raise typer.Exit(1)


def _path(datastream: str, source: str, destination: str, at: str, config: Path | None) -> CanaryPath:
    """Return source and destination of the canary records. Raises InvalidRequest for contradictory
    options."""
    from headrace.console.resources import path_of
    from headrace.oncall.canaries import path_of_definition
    from mirror.errors import InvalidRequest
    from mirror.model.identifiers import ClusterRef
    from mirror.model.topics import TopicNaming
    from monitor.canary.canary_watch import CanaryPath

    if bool(datastream) == bool(source or destination) or bool(source) != bool(destination):
        raise InvalidRequest("give either a datastream, or both --source and --destination")
    if not datastream:
        return CanaryPath.of(
            f"gate-{uuid.uuid4().hex[:8]}", ClusterRef(source), ClusterRef(destination), TopicNaming("*.copy")
        )
    definition = connect(at, config).get(path_of(datastream))
    if not definition.get("canary"):
        raise InvalidRequest(
            f"datastream {datastream} has no canary", advice="run headrace datastream update NAME --canary"
        )
    if definition["status"] != "READY":
        raise InvalidRequest(f"datastream {datastream} is {definition['status']}", advice="resume it first")
    return path_of_definition(definition)


@contextmanager
def _own_copy(config: Path | None, directory: ClusterDirectory, path: CanaryPath) -> Iterator[None]:
    """Copy the canary topic in a worker process during the `with` block, and delete both topics
    afterwards."""
    import re

    from headrace.commands.copy import copy_setup
    from headrace.console.terminal import complain
    from headrace.copy.run import CopyRun
    from mirror.adapters.kafka_admin import KafkaAdmin
    from mirror.jobs.copy_job import CopyJob
    from mirror.model.datastreams.datastream import StartPosition
    from mirror.model.topics import TopicDescription, TopicNaming, TopicSelection
    from monitor.adapters.canary_probe import TOPIC_SETTINGS

    topics = ((path.source, path.topic), (path.destination, path.copy))
    admins = [(KafkaAdmin(directory.resolve(cluster)), topic) for cluster, topic in topics]
    job = CopyJob(
        f"canary-{uuid.uuid4().hex[:12]}",
        path.source,
        path.destination,
        TopicSelection(re.escape(path.topic)),
        TopicNaming("*.copy"),
        start=StartPosition.LATEST,
    )
    run = CopyRun(copy_setup(config, job, -1), job, 1)
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up
    try:
        admins[0][0].create(TopicDescription(path.topic, 1, settings=TOPIC_SETTINGS))
        plan = _planned(run)
        thread = threading.Thread(target=lambda: [*run.run(plan.specs)], name="copy", daemon=True)
        thread.start()
        try:
            yield
        finally:
            run.stop()
            thread.join(_COPY_STOP_SECONDS)
            with Bulkhead(lambda error: complain(f"cannot delete the progress of the copy: {error}")):
                run.forget(plan.specs)
    finally:
        signal.signal(signal.SIGTERM, former)
        for admin, topic in admins:
            _delete(admin, topic)


def _delete(admin: KafkaAdmin, topic: str) -> None:
    from headrace.console.terminal import complain

    with Bulkhead(lambda error: complain(f"cannot delete topic {topic}: {error}")):
        admin.delete(topic)


def _planned(run: CopyRun) -> CopyPlan:
    """Plan the copy of the canary topic as soon as every broker reports the topic. Raises TopicMissing,
    Unreachable."""
    from mirror.errors import TopicMissing

    until, never = time.monotonic() + _CREATION_SECONDS, threading.Event()
    while True:
        try:
            return run.plan()
        except TopicMissing:
            if time.monotonic() >= until:
                raise
        never.wait(_PAUSE_SECONDS)


def _progress(figures: CanaryFigures) -> str:
    delay = "" if figures.delay_ms_avg is None else f", mean delay {figures.delay_ms_avg:.0f} ms"
    written = counted(figures.produced, "record")
    return f"{written} written, {figures.consumed} arrived, {figures.lost} lost{delay}"


def _print(path: CanaryPath, result: GateResult, *, as_json: bool) -> None:
    from headrace.console.terminal import console, print_json

    figures = result.figures
    if as_json:
        document: dict[str, Any] = {"passed": result.is_passed, **path._asdict()}
        document |= {"lost": result.lost, "availability": result.availability}
        document |= {"failures": [asdict(failure) for failure in result.failures], "figures": asdict(figures)}
        print_json(document)
        return
    slowest = "unknown" if figures.slowest_ms is None else f"{figures.slowest_ms:.0f} ms"
    console().print(
        f"{_progress(figures)}, slowest {slowest},"
        f" {figures.duplicated} duplicated, {figures.out_of_order} out of order"
    )
    for failure in result.failures:
        console().print(f"failed: {failure.sentence}")
    console().print("passed" if result.is_passed else "not passed")
