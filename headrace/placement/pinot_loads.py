"""Creates the load provider that reads Pinot, which requires the analytics extras.

Import this module only if a command or setting requires Pinot or Spark.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.clusters.directory import ClusterDirectory
from headrace.settings import HeadraceSettings
from mirror.adapters.kafka.topic_client import TopicClient
from mirror.adapters.system_clock import SystemClock
from mirror.model.bounds import REACH_SECONDS
from mirror.model.identifiers import ClusterRef
from mirror.model.load import Freshness
from mirror.settings import KafkaCluster
from pinot.client import PinotClient
from pinot.deployment.controller import PinotController
from pinot.deployment.ingestion import positions
from pinot.tables import PARTITION_METRICS
from pmp.adapters.compacted_topics import CompactedTopics
from pmp.loads.provider import PinotLoadProvider, ProviderInputs, SampleFreshness
from pmp.loads.wholeness import Progress


def pinot_provider(settings: HeadraceSettings, client: PinotClient | None = None) -> PinotLoadProvider:
    """Return the load provider that reads samples from Pinot.

    The samples come from Cruise Control or from Headrace's sampler. Measurements are stored under the alias
    of their cluster, even if a datastream refers to it by address.
    """
    clock = SystemClock()
    directory = ClusterDirectory(settings.clusters)

    def configured(cluster: ClusterRef) -> KafkaCluster | None:
        return settings.clusters.get(directory.of_address(cluster))

    inputs = ProviderInputs(
        directory.of_address,
        CompactedTopics(configured, clock),
        _progress(settings),
        settings.assigner.unknown.bytes_per_second,
    )
    return PinotLoadProvider(client or PinotClient(settings.pinot), settings.pmp, clock, inputs)


def pinot_freshness(settings: HeadraceSettings) -> Callable[[ClusterRef], Freshness]:
    """Return a function that reads from Pinot how old a cluster's samples are. Each call sends one query,
    with a timeout of at most `REACH_SECONDS`, after which Pinot counts as unavailable."""
    patience = min(settings.pinot.timeout_seconds, REACH_SECONDS)
    client = PinotClient(settings.pinot.model_copy(update={"attempts": 1, "timeout_seconds": patience}))
    directory, provider = ClusterDirectory(settings.clusters), settings.pmp.provider
    return SampleFreshness(client, provider, SystemClock(), directory.of_address).of


def _progress(settings: HeadraceSettings) -> Progress | None:
    """Return how far Pinot has ingested the sample topic.

    Returns None if the cluster of the topic is not configured.
    """
    ingested = settings.clusters.get(settings.pmp.output_cluster)
    if ingested is None:
        return None
    controller = PinotController(settings.pinot)
    return Progress(
        TopicClient(ingested, settings.pmp.topic, "headrace-ends").ends,
        lambda: positions(controller, PARTITION_METRICS.name),
    )
