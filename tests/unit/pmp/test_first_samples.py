"""Messages of the job when there is nothing to read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pmp.job.first_samples import FirstSamplesWait, awaited
from pmp.samples.sample import EXECUTION_TOPIC, SAMPLES_TOPIC
from pmp.settings import SampledCluster


def first_samples_wait(
    *sources: dict[str, Any], sampled_by: str = "cruise-control"
) -> FirstSamplesWait | None:
    sampled = SampledCluster.model_validate({"sampled_by": sampled_by})
    return awaited({"sources": [*sources]}, "east", sampled)


@pytest.mark.parametrize("sources", [(), ({"endOffset": None},), ({"endOffset": {}, "latestOffset": "{}"},)])
def test_a_cluster_without_a_topic_of_samples_is_named_with_both_names(
    sources: tuple[dict[str, Any], ...],
) -> None:
    found = first_samples_wait(*sources)
    assert found is not None
    assert found.problem.endswith(f"topic {SAMPLES_TOPIC} or {EXECUTION_TOPIC}")
    assert "pmp.clusters.east.samples_topic" in found.advice
    assert "headrace pmp sampler --cluster east" in found.advice


def test_an_empty_topic_waits_for_its_first_sample() -> None:
    found = first_samples_wait({"endOffset": {SAMPLES_TOPIC: {"0": 0, "1": 0}}}, sampled_by="sampler")
    assert found is not None
    assert SAMPLES_TOPIC in found.problem
    assert EXECUTION_TOPIC not in found.problem
    assert found.advice.endswith("headrace pmp sampler --cluster east")


@pytest.mark.parametrize("field", ["endOffset", "latestOffset"])
def test_a_topic_with_samples_is_not_waited_for_though_they_are_old(field: str) -> None:
    assert first_samples_wait({field: json.dumps({SAMPLES_TOPIC: {"0": 0, "1": 7}})}) is None
