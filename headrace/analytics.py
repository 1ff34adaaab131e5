"""Objects that need the analytics extras. Import this module only if a command or setting requires Pinot or
Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

import tenacity

from headrace.clusters.adhoc import bench_of
from headrace.clusters.directory import ClusterDirectory
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.errors import InvalidRequest, NotFound
from mirror.jobs.verify_job import CopiedRange, VerifyJob, copied_ranges
from mirror.model.datastreams.metadata import TASK_PREFIX
from mirror.model.datastreams.policy import policy_from
from mirror.model.identifiers import ClusterRef
from mirror.model.load import Freshness
from mirror.model.topics import TopicNaming, TopicSelection
from mirror.settings import KafkaCluster
from monitor.adapters.topic_contents import TopicContents
from monitor.audit import AuditProgress, AuditResult, audit_topic
from pinot.client import PinotClient
from pinot.deployment.controller import PinotController
from pinot.deployment.ingestion import positions
from pinot.tables import PARTITION_METRICS
from pmp.adapters.compacted_topics import CompactedTopics
from pmp.adapters.topic_ends import topic_ends
from pmp.loads.provider import PinotLoadProvider, ProviderInputs, SampleFreshness
from pmp.loads.wholeness import Progress

_FRESHNESS_SECONDS: Final = 5.0
_FIRST_CHECKPOINT_SECONDS: Final = 30.0
"""Time to wait for the first checkpoint of a datastream that may just have started."""


def pinot_provider(settings: HeadraceSettings, client: PinotClient | None = None) -> PinotLoadProvider:
    """Return the provider of loads from Pinot, based on samples of Cruise Control or of Headrace's sampler.

    Samples carry the alias of their cluster, even if a datastream refers to it by address.
    """
    clock = SystemClock()
    directory = ClusterDirectory(settings.clusters)

    def configured(cluster: ClusterRef) -> KafkaCluster | None:
        return settings.clusters.get(directory.of_address(cluster))

    world = ProviderInputs(
        directory.of_address,
        CompactedTopics(configured, clock),
        _progress(settings),
        settings.assigner.unknown.bytes_per_second,
    )
    return PinotLoadProvider(client or PinotClient(settings.pinot), settings.pmp, clock, world)


def pinot_freshness(settings: HeadraceSettings) -> Callable[[ClusterRef], Freshness]:
    """Return a function that reads the freshness of a cluster's samples in Pinot. It makes a single attempt
    of a few seconds. If Pinot needs longer to find its latest sample, it counts as unavailable."""
    patience = min(settings.pinot.timeout_seconds, _FRESHNESS_SECONDS)
    client = PinotClient(settings.pinot.model_copy(update={"attempts": 1, "timeout_seconds": patience}))
    directory, provider = ClusterDirectory(settings.clusters), settings.pmp.provider
    return SampleFreshness(client, provider, SystemClock(), directory.of_address).of


def _progress(settings: HeadraceSettings) -> Progress | None:
    """Return Pinot's ingestion progress in the sample topic, or None if the topic's cluster is not
    configured."""
    ingested = settings.clusters.get(settings.pmp.output_cluster)
    if ingested is None:
        return None
    controller = PinotController(settings.pinot)
    return Progress(
        lambda: topic_ends(ingested, settings.pmp.topic),
        lambda: positions(controller, PARTITION_METRICS.name),
    )


def _has_copied(ranges: Sequence[CopiedRange]) -> bool:
    """Return whether some record was copied, or no record had to be copied."""
    some = any(measured.source_range[0] < measured.source_range[1] for measured in ranges)
    return some or not any(measured.unjudged for measured in ranges)


def _first_ranges(look: Callable[[], list[CopiedRange]]) -> list[CopiedRange]:
    """Return the copied ranges once a record is copied, or after the deadline."""
    asking = tenacity.Retrying(
        stop=tenacity.stop_after_delay(_FIRST_CHECKPOINT_SECONDS),
        wait=tenacity.wait_fixed(0.5),
        retry=tenacity.retry_if_result(lambda ranges: not _has_copied(ranges)),
        retry_error_callback=lambda last: last.outcome.result() if last.outcome is not None else [],
    )
    return asking(look)


def audit_datastream(
    settings: HeadraceSettings,
    definition: Mapping[str, Any],
    on_progress: Callable[[str, int], None] = lambda _topic, _records: None,
) -> list[AuditResult]:
    """Compare source and destination of every topic of a definition (in its /v1 form), up to the checkpoints.
    Records that arrive in the meantime are ignored. `on_progress` is called periodically with the current
    topic and the number of its records read on both sides.

    Raises NotFound if no checkpoint appears before the deadline, InvalidRequest for transforms, TopicMissing
    and Unreachable.
    """
    name, wanted = definition["name"], definition["source"]
    if policy_from(definition["metadata"]).transforms:
        raise InvalidRequest(
            f"cannot audit {name}: its transforms change records",
            advice="headrace progress shows the class of every offset",
        )
    job = VerifyJob(
        ClusterRef(wanted["cluster"]),
        ClusterRef(definition["destination"]["cluster"]),
        TopicSelection(wanted["topics"], wanted["exclude"], wanted["internal"]),
        TopicNaming(definition["destination"]["name"]),
        state=definition["metadata"].get(TASK_PREFIX) or name,
    )
    directory = ClusterDirectory(settings.clusters)
    with bench_of(settings, "headrace-audit", directory) as bench:
        ranges = _first_ranges(lambda: bench.run(copied_ranges(bench, job)))
    if not _has_copied(ranges):
        raise NotFound(
            f"{name} has copied nothing yet: no checkpoint after {_FIRST_CHECKPOINT_SECONDS:.0f} s",
            advice=f"headrace lag {name} shows what its partitions are waiting for",
        )
    source, destination = directory.resolve(job.source), directory.resolve(job.destination)
    results = []
    for topic, found in groupby(ranges, key=lambda measured: measured.partition.topic):
        parts = list(found)
        here = {part.partition.partition: part.source_range for part in parts}
        there = {part.partition.partition: part.target_range for part in parts}
        left_out = {part.partition.partition: part.left_out for part in parts}
        reading = AuditProgress(partial(on_progress, topic))
        results.append(
            audit_topic(
                topic,
                reading.of(TopicContents(source, topic, here, left_out=left_out)),
                reading.of(TopicContents(destination, job.naming.destination(topic), there)),
                sum(part.unjudged for part in parts),
            )
        )
    return results
