"""`headrace pmp …`: run the Spark job or the sampler, decode samples, and print the loads from the
provider."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.commands.analytics.metrics_page import serve_metrics
from headrace.commands.options import ConfigOption, JsonOption
from headrace.console.durations import duration_seconds, milliseconds
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import complain, print_json, print_table
from headrace.process.stop_signals import on_stop_signals
from mirror.loggers import get_logger

if TYPE_CHECKING:
    from headrace.settings import HeadraceSettings
    from mirror.settings import KafkaCluster
    from pmp.rollup import Rollup
    from pmp.rounds import ThreadService


app = CommandGroup(no_args_is_help=True)

_STOP_SECONDS: Final = 20.0


@app.command()
def run(config: ConfigOption = None) -> None:
    """Run the Spark job that feeds samples to Pinot.

    The job writes the samples of all clusters to the topic that Pinot ingests. Exits with 0 on SIGTERM or
    SIGINT, 1 on failure, 2 on an invalid setting.
    """
    from headrace.process.logs import configure_logs
    from headrace.settings import load_settings
    from mirror.adapters.system_clock import SystemClock
    from pinot.tables import PARTITION_METRICS
    from pmp.adapters.checkpoint_locks import CheckpointLocks
    from pmp.job.connectors import connectors
    from pmp.job.job_metrics import JobMetrics
    from pmp.job.service import PmpService
    from pmp.job.spark_session import close_session, open_unless_stopping
    from pmp.job.streams import Configuration

    stopping = threading.Event()
    on_stop_signals(stopping.set)
    settings = load_settings(config)
    job = settings.pmp.job
    configure_logs(settings.logging, process="pmp")
    locks = CheckpointLocks(job.checkpoint_folder)
    locks.take(f"shard {job.shard}")
    metrics = JobMetrics()
    serve_metrics("pmp.job", job.metrics_host, job.metrics_port, metrics.registry)
    get_logger(__name__).info("starting Spark, may take several seconds", log=job.written_log or None)
    session = open_unless_stopping(job, connectors(job), stopping)
    if session is None:
        return

    def read_again() -> Configuration:
        fresh = load_settings(config)
        return Configuration(fresh.pmp, fresh.clusters, fresh.pinot.days_kept(PARTITION_METRICS))

    _create_topics(settings)
    services: list[ThreadService] = [PmpService(session, read_again, SystemClock(), metrics, stopping)]
    if settings.pmp.rollup.enabled and job.shard == 0:
        rollup = _rollup(settings)
        metrics.watch_rollup(lambda: rollup.healthy, lambda: rollup.rows_written)
        services.append(rollup)
    try:
        _until_stopped(services, stopping)
    finally:
        close_session(session)
        locks.release(f"shard {job.shard}")


def _create_topics(settings: HeadraceSettings) -> None:
    """Create the output topics of the Spark job. If a cluster is unreachable, Spark retries."""
    from mirror.adapters.kafka_admin import KafkaAdmin
    from mirror.errors import Unreachable
    from mirror.model.topics import TopicDescription

    pmp = settings.pmp
    admin = KafkaAdmin(_cluster(settings, pmp.output_cluster))
    try:
        present = admin.list_topics()
        for name in (pmp.topic, pmp.hourly_topic, pmp.dead_letter_topic):
            if name not in present:
                admin.create(TopicDescription(name, pmp.topic_partitions))
    except Unreachable as error:
        get_logger(__name__).warning("cannot create topics", problem=str(error))


def _rollup(settings: HeadraceSettings) -> Rollup:
    from mirror.adapters.system_clock import SystemClock
    from pinot.client import PinotClient
    from pmp.adapters.hourly_topic import HourlyTopic
    from pmp.rollup import Rollup

    chosen = settings.pmp.rollup
    sink = HourlyTopic(_cluster(settings, settings.pmp.output_cluster), settings.pmp.hourly_topic)
    client = PinotClient(settings.pinot)
    return Rollup(client, sink, SystemClock(), chosen.interval_seconds, chosen.horizon_hours)


@app.command()
def sampler(
    cluster: Annotated[str, typer.Option(help="Alias of the measured cluster.")],
    config: ConfigOption = None,
    interval: Annotated[
        str, typer.Option(help="Time between samples, such as 5s (default: from the settings).")
    ] = "",
) -> None:
    """Sample a cluster's partitions, without Cruise Control.

    Writes samples in Cruise Control's format."""
    from headrace.process.logs import configure_logs
    from headrace.settings import load_settings
    from mirror.adapters.system_clock import SystemClock
    from pmp.adapters.cluster_probe import KafkaClusterProbe
    from pmp.adapters.group_leadership import GroupLeadership
    from pmp.adapters.sample_topic import SampleTopic
    from pmp.sampler import Sampler
    from pmp.settings import SampledCluster

    settings = load_settings(config)
    seconds = duration_seconds(interval) if interval else settings.pmp.sampler.interval_seconds
    configure_logs(settings.logging, process="sampler", cluster=cluster)
    kafka = _cluster(settings, cluster)
    sampled = settings.pmp.clusters.get(cluster, SampledCluster())
    sampling = settings.pmp.sampler
    topic = SampleTopic(kafka, sampled.samples_topic, sampling.topic_partitions)
    topic.create()
    leadership = GroupLeadership(kafka, sampled.samples_topic)
    service = Sampler(cluster, KafkaClusterProbe(kafka, SystemClock()), topic, seconds, leadership.is_leader)
    _until_stopped([leadership, service], threading.Event())


@app.command()
def decode() -> None:
    """Decode samples from stdin (hex, one per line) to JSON.

    An empty line stands for a record with an empty value."""
    from pmp.samples.description import describe_line

    for line in sys.stdin:
        print_json(describe_line(line), indent=None)


@app.command()
def loads(
    cluster: Annotated[str, typer.Option(help="Cluster, as labelled in its samples.")],
    at: Annotated[
        int | None, typer.Option(metavar="EPOCH_MS", help="End of the window (default: now).")
    ] = None,
    window: Annotated[
        str, typer.Option(help="Length of the window, such as 60s, 10m or 24h (default: from the settings).")
    ] = "",
    statistic: Annotated[
        str, typer.Option(help="Statistic: mean, p95 or max (default: from the settings).")
    ] = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the load of every partition, as the assigner sees it.

    Notes on stderr report the number of old loads (held) and of loads for only part of the window
    (partial)."""
    from headrace.placement.pinot_loads import pinot_provider
    from headrace.settings import load_settings
    from mirror.adapters.system_clock import SystemClock
    from mirror.model.identifiers import ClusterRef
    from pinot.client import PinotClient
    from pmp.loads.completion import mark_notes

    settings = load_settings(config)
    length_ms = milliseconds(window) if window else int(settings.pmp.provider.window_seconds * 1000)
    at_ms = SystemClock().now_ms() if at is None else at
    client = PinotClient(settings.pinot)
    try:
        report = pinot_provider(settings, client).measured(
            ClusterRef(cluster), at_ms, length_ms, _statistic(statistic) if statistic else None
        )
    finally:
        client.close()
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "bytes_in_per_second": load.bytes_per_second,
            "messages_in_per_second": load.messages_per_second,
            "rate_source": str(load.rate_source),
            "level": str(load.level),
            "age_ms": load.age_ms(at_ms),
        }
        for partition, load in sorted(report.loads.items())
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(f"loads of {cluster}", tuple(rows[0]) if rows else ("topic", "partition"), rows)
    for note in (*report.notes, *mark_notes(report.loads, at_ms)):
        complain(note)


def _statistic(text: str) -> Any:
    from mirror.errors import InvalidRequest
    from pinot.tables import Statistic

    try:
        return Statistic(text)
    except ValueError as error:
        raise InvalidRequest(
            f"invalid statistic {text!r}", advice=f"choose one of {', '.join(Statistic)}"
        ) from error


def _cluster(settings: HeadraceSettings, alias: str) -> KafkaCluster:
    from mirror.errors import NotFound

    if alias not in settings.clusters:
        raise NotFound(
            f"no cluster named {alias}", advice=f"configured clusters: {', '.join(sorted(settings.clusters))}"
        )
    return settings.clusters[alias]


def _until_stopped(services: Sequence[ThreadService], stopping: threading.Event) -> None:
    """Run the services until one ends or `stopping` is set, then stop them in reverse order.

    Raises the error of a service that failed.
    """
    on_stop_signals(stopping.set)  # again, because Spark has installed its own handlers
    started: list[ThreadService] = []
    try:
        for service in services:
            service.start()
            started.append(service)
        while not stopping.wait(0.2) and all(service.is_running() for service in services):
            pass
    finally:
        for service in reversed(started):
            service.stop(_STOP_SECONDS)
    for service in services:
        if service.failure is not None:
            raise service.failure
