"""Distribution of clusters over drivers, and contradictory settings."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from mirror.settings import KafkaCluster
from pmp.job.streams import Configuration, shard_of, streams
from pmp.settings import JobSettings, PmpSettings, SampledCluster

NAMES = [f"cluster-{number}" for number in range(1000)]


def clusters_of(shard: int, shards: int) -> set[str]:
    settings = PmpSettings(
        clusters=dict.fromkeys(NAMES, SampledCluster()),
        output_cluster="out",
        job=JobSettings(shard=shard, shards=shards),
    )
    clusters = {name: KafkaCluster(bootstrap_servers="localhost:1") for name in [*NAMES, "out"]}
    return set(streams(Configuration(settings, clusters, retention_days=3)))


def test_every_cluster_has_one_driver_and_every_driver_its_share() -> None:
    shares = [clusters_of(shard, 7) for shard in range(7)]
    assert sorted(name for share in shares for name in share) == sorted(NAMES)
    assert all(100 < len(share) < 190 for share in shares)
    assert clusters_of(0, 1) == set(NAMES)


def test_the_share_is_the_same_in_every_process_and_version() -> None:
    assert [shard_of(name, 10) for name in ("east", "west", "north")] == [8, 4, 4]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"shard": 2, "shards": 2}, "shard 2 "),
        ({"parallelism": 17}, "parallelism 17 .* 16"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        JobSettings.model_validate(wrong)
    assert JobSettings(parallelism=17, buckets=32).parallelism == 17


@pytest.mark.parametrize("field", ["include", "exclude"])
def test_a_list_of_topics_with_commas_is_refused(field: str) -> None:
    with pytest.raises(ValidationError, match=r"orders\|payments"):
        SampledCluster.model_validate({field: "orders,payments"})


def test_a_topic_has_one_purpose() -> None:
    with pytest.raises(ValidationError, match="samples_topic and execution_topic must differ"):
        SampledCluster(samples_topic="s", execution_topic="s")
    with pytest.raises(ValidationError, match="both read and written"):
        PmpSettings(output_cluster="a", topic="s", clusters={"a": SampledCluster(samples_topic="s")})
    with pytest.raises(ValidationError, match="both read and written"):
        PmpSettings(
            output_cluster="a", dead_letter_topic="s", clusters={"a": SampledCluster(execution_topic="s")}
        )
    PmpSettings(output_cluster="a", topic="s", clusters={"b": SampledCluster(samples_topic="s")})
