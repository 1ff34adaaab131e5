"""Test the comparison job of a definition, and which results are differences."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.clusters.audits import audit_job, may_repeat, results_by_topic
from mirror.audit.comparison import Comparison
from mirror.audit.verdicts import PartitionFindings, RecordCounts, Verdict
from mirror.jobs.partition_verdict import PartitionVerdict
from mirror.model.datastreams.policy import Isolation
from mirror.model.topics import TopicPartition
from tests.fakes.site import Site


def definition_of(site: Site, **more: Any) -> dict[str, Any]:
    site.create("orders", **more)
    found: dict[str, Any] = site.client.get("/v1/datastreams/orders").json()
    return found


@pytest.mark.parametrize(
    ("guarantee", "permits"), [("at-least-once", True), ("effectively-once", False), ("exactly-once", False)]
)
def test_only_at_least_once_permits_duplicates(guarantee: str, permits: bool) -> None:
    assert may_repeat(definition_of(Site(), guarantee=guarantee)) is permits


def test_the_default_guarantee_permits_no_duplicates() -> None:
    assert not may_repeat(definition_of(Site()))


def test_a_comparison_has_the_options_of_the_definition() -> None:
    plain = audit_job(definition_of(Site()))
    assert (plain.isolation, plain.is_transformed, plain.is_shared) == (
        Isolation.READ_COMMITTED,
        False,
        False,
    )
    policies = {"isolation": "read-uncommitted", "transforms": ["keep-keys:a"]}
    job = audit_job(
        definition_of(Site(), policies=policies, destination={"cluster": "destination", "shared": True})
    )
    assert (job.isolation, job.is_transformed, job.is_shared) == (Isolation.READ_UNCOMMITTED, True, True)


@pytest.mark.parametrize(
    ("unjudged", "repeats", "is_complete"),
    [(0, False, False), (0, True, True), (5, False, False), (5, True, True)],
)
def test_duplicates_are_a_difference_unless_they_are_permitted(
    unjudged: int, repeats: bool, is_complete: bool
) -> None:
    found = Comparison(PartitionFindings(RecordCounts(equal=9, duplicated=2)))
    verdict = PartitionVerdict(TopicPartition("t", 0), comparison=found, unjudged=unjudged)
    (result,) = results_by_topic([verdict], may_repeat=repeats)
    assert result.verdict is (Verdict.LATE if unjudged else Verdict.DUPLICATED)
    assert result.is_complete is result.to_json()["complete"] is is_complete
    assert result.repeated == (0 if repeats else 2)
