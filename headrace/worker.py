"""Main program of a worker of `headrace serve`.

    python -m headrace.process.machine_code headrace.worker CHANNEL NUMBER INSTANCE

CHANNEL is the file descriptor of the socket to the control process. The module imports as little as possible,
because one worker process runs per core.
"""

from __future__ import annotations

import gc
import os
import socket
import sys

import structlog

from headrace.clusters.directory import directory_of
from headrace.console.terminal import complain
from headrace.errors import exit_code_of, explain
from headrace.process.logs import configure_logs
from headrace.process.machine_code import data_plane
from headrace.process.stop_signals import ignore_stop_signals
from headrace.settings import HeadraceSettings, load_settings
from mirror.adapters.kafka.access import access_of
from mirror.adapters.metric_topic import RecordTopic, mirror_metric_topic
from mirror.adapters.system_clock import SystemClock
from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef, Epoch, InstanceName
from mirror.model.metrics import MirrorMetric
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.engine import BatchEngine
from mirror.worker.process import LeaseOver, Worker
from mirror.worker.protocol import EXIT_LEASE_OVER
from mirror.worker.reports import MetricReports


def build_worker(
    settings: HeadraceSettings, control: socket.socket, name: InstanceName
) -> tuple[Worker, RecordTopic[MirrorMetric]]:
    """Build a worker and its metrics topic, which the caller closes when the worker has finished."""
    clock = SystemClock()
    directory = directory_of(settings)
    worker = settings.mirror.worker
    identity = EngineIdentity(
        instance=name,
        client_id=f"headrace-{name}",
        progress_topic=settings.mirror.progress_topic,
        replication_factor=settings.mirror.leader.replication_factor,
        task_bytes_per_second=worker.task_bytes_per_second_limit,
        checkpoint_interval_seconds=worker.checkpoint_interval_seconds,
    )
    context = EngineContext(
        lambda reference: access_of(directory.resolve(reference)),
        settings.mirror.copying.options(),
        identity,
        clock,
    )
    engine = BatchEngine(context)
    metrics_cluster = directory.resolve(ClusterRef(settings.mirror.metrics_cluster))
    topic = mirror_metric_topic(metrics_cluster, settings.mirror.metrics_topic)
    reports = MetricReports(engine, topic, clock, worker.metrics_interval_seconds)
    return Worker(control, engine, reports, clock, data_plane(), on_plan=_name_plan), topic


def _name_plan(epoch: Epoch) -> None:
    structlog.contextvars.bind_contextvars(plan=epoch)


def _run(channel: int, number: int, instance: InstanceName) -> None:
    settings = load_settings()
    configure_logs(settings.logging, instance=instance, worker=number)
    log = get_logger("headrace.worker")
    log.info("worker started", data_plane=data_plane())
    worker, metric_topic = build_worker(settings, socket.socket(fileno=channel), instance)
    gc.freeze()
    try:
        worker.run()
    except LeaseOver as error:
        log.error(str(error))  # noqa: TRY400 - its traceback shows nothing
        os._exit(EXIT_LEASE_OVER)  # buffered data must not be written any more
    metric_topic.close(2.0)


def main() -> int:
    """Run the worker; print an expected failure as one line on stderr."""
    ignore_stop_signals()
    channel, number, instance = sys.argv[1:]
    try:
        _run(int(channel), int(number), InstanceName(instance))
    except (HeadraceError, OSError) as error:
        message = explain(error)
        if message is None:
            raise
        complain(message)
        return exit_code_of(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
