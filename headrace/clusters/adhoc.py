"""Connections for commands that access clusters without a running service."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headrace.clusters.directory import ClusterDirectory
from headrace.settings import HeadraceSettings, load_settings
from mirror.adapters.kafka.access import access_of
from mirror.adapters.kafka.session import first_answer, first_listener
from mirror.adapters.system_clock import SystemClock
from mirror.client.cluster import CONTROL
from mirror.model.bounds import REACH_SECONDS
from mirror.model.identifiers import ClusterRef
from mirror.replication.context import EngineContext, EngineIdentity


@contextmanager
def one_off(config: Path | None, client_id: str, **clusters: str) -> Iterator[EngineContext]:
    """Open an engine context (connections to clusters) for the `with` block, and close it afterwards.

    `clusters`: cluster references by option name. Raises ConfigError for a reference that is neither an alias
    nor an address.
    """
    settings = load_settings(config)
    directory = ClusterDirectory(settings.clusters)
    for option, reference in clusters.items():
        directory.checked(f"--{option}", reference)
    with bench_of(settings, client_id, directory) as bench:
        yield bench


@contextmanager
def bench_of(
    settings: HeadraceSettings, client_id: str, directory: ClusterDirectory, request_seconds: float = math.inf
) -> Iterator[EngineContext]:
    """Open an engine context (connections to clusters) from loaded settings.

    `request_seconds`: upper limit of `request_timeout_seconds`.
    """
    options = settings.mirror.copying.options()
    seconds = min(options.request_timeout_seconds, request_seconds)
    identity = EngineIdentity(socket.gethostname(), client_id, progress_topic=settings.mirror.progress_topic)
    bench = EngineContext(
        lambda reference: access_of(directory.resolve(reference)),
        replace(options, request_timeout_seconds=seconds),
        identity,
        SystemClock(),
    )
    try:
        yield bench
    finally:
        bench.close()


def reach(bench: EngineContext, *clusters: ClusterRef) -> None:
    """Wait until a broker of each cluster has responded at an address that it advertises.

    A command calls this function first, to fail within `REACH_SECONDS` for each cluster if the address is
    wrong, the cluster is down, or this host cannot reach the advertised listeners. Later requests are retried
    for half a minute, because a broker may be restarting. Raises Unreachable, TimedOut, NotAuthorized,
    ConfigError.
    """
    for cluster in map(bench.cluster, clusters):
        if cluster.connections.any_open(CONTROL) is None:
            until = bench.loop.now() + REACH_SECONDS
            bench.run(first_answer(bench.loop, cluster, REACH_SECONDS))
            bench.run(first_listener(bench.loop, cluster, until - bench.loop.now()))
