"""Replays of the recording with a broker failure, through the job, Pinot and the provider."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from pyspark.sql import SparkSession

from mirror.adapters.system_clock import SystemClock
from mirror.model.identifiers import ClusterRef
from mirror.model.load import RateSource
from mirror.settings import KafkaCluster
from pinot.client import PinotClient
from pinot.tables import Statistic
from pmp.job.streams import Configuration, start_stream, streams
from pmp.loads.provider import PinotLoadProvider
from pmp.settings import JobSettings, PmpSettings, SampledCluster
from tests.kafka_data import make_topic
from tests.metrics_data import fresh_name, write_values
from tests.patience import wait_until
from tests.recording import DEATHS, Recording, findings, replay, values_of
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

MINUTE_MS = 60_000
TOLERATED = 0.05


@pytest.fixture(scope="module")
def replays() -> dict[str, Recording]:
    """Return a cluster for every failure."""
    return {fresh_name("death"): replay(death) for death in DEATHS.values()}


@pytest.fixture(scope="module")
def provider(
    spark: SparkSession,
    kafka_pair: KafkaPair,
    pinot_client: PinotClient,
    replays: dict[str, Recording],
    tmp_path_factory: pytest.TempPathFactory,
) -> PinotLoadProvider:
    """Return the leader's load provider, with all samples in Pinot."""
    source = KafkaCluster(bootstrap_servers=kafka_pair.source.address)
    settings = PmpSettings(
        clusters={name: SampledCluster(samples_topic=f"__{name}") for name in replays},
        job=JobSettings(checkpoint_folder=str(tmp_path_factory.mktemp("deaths")), trigger_interval_seconds=0),
        output_cluster="out",
    )
    clusters = dict.fromkeys(replays, source)
    clusters["out"] = KafkaCluster(bootstrap_servers=kafka_pair.destination.address)
    found = streams(Configuration(settings, clusters, retention_days=3650))
    for name, recorded in replays.items():
        make_topic(source.bootstrap_servers, f"__{name}", 4)
        write_values(source.bootstrap_servers, f"__{name}", values_of(recorded))
        query = start_stream(spark, settings, found[name])
        query.processAllAvailable()
        query.stop()
        expected = sum(not sample.topic.startswith("__") for sample in recorded.samples)
        wait_until(lambda name=name, expected=expected: _count(pinot_client, name) == expected)  # type: ignore[misc]
    return PinotLoadProvider(pinot_client, settings, SystemClock())


def _count(client: PinotClient, cluster: str) -> int:
    sql = "select count(*) from partitionMetrics where cluster = %(c)s limit 1"
    return int(client.ask(sql, {"c": cluster}).rows[0][0])


def test_every_load_has_an_age_and_none_is_far_off_without_a_mark(
    provider: PinotLoadProvider, replays: dict[str, Recording]
) -> None:
    for (name, recorded), death in zip(replays.items(), DEATHS, strict=True):
        cluster = ClusterRef(name)
        found = list(
            findings(
                recorded,
                lambda when, cluster=cluster: (
                    provider.measured(  # type: ignore[misc]
                        cluster, when.until_ms - 1, when.length_ms, Statistic.MEAN
                    ).loads
                ),
                MINUTE_MS,
            )
        )
        print(f"{death}:")
        errors: dict[RateSource, list[float]] = defaultdict(list)
        for one in found:
            errors[one.load.rate_source].append(one.error)
        for source, values in errors.items():
            far = sum(error > TOLERATED for error in values)
            print(f"  {source}: {len(values)} loads, worst error {max(values):.2%}, {far} above 5 %")
        assert all(one.load.age_ms(one.at_ms) is not None for one in found)
        sources = Counter(one.load.rate_source for one in found)
        assert sources[RateSource.SLOPE] > 500
        assert min(sources[RateSource.HELD], sources[RateSource.PARTIAL]) > 20
        unmarked = [one for one in found if one.load.rate_source is RateSource.SLOPE]
        assert [one for one in unmarked if one.error > TOLERATED] == []
        held = [one for one in found if one.load.rate_source is RateSource.HELD]
        assert all((one.load.age_ms(one.at_ms) or 0) > 5_000 for one in held)
