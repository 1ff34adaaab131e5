"""Plans of a copy between two fake clusters: which topics, and the state of their destinations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from mirror.errors import InvalidRequest
from mirror.jobs.copy_job import CopyJob, CopyPlan, plan_copy
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicSelection
from tests.fakes.broker.mirrored import MirroredFakes

SOURCE, DESTINATION = ClusterRef("source"), ClusterRef("destination")


@pytest.fixture
def fakes() -> Iterator[MirroredFakes]:
    with closing(MirroredFakes()) as rig:
        yield rig


def a_job(topics: str = ".*", exclude: str = "", **more: Any) -> CopyJob:
    return CopyJob("state", SOURCE, DESTINATION, TopicSelection(topics, exclude), **more)


def planned(fakes: MirroredFakes, job: CopyJob) -> CopyPlan:
    return fakes.context.run(plan_copy(fakes.context, job))


def topics_of(plan: CopyPlan) -> set[str]:
    return {spec.key.partition.topic for spec in plan.specs}


@pytest.mark.parametrize(("topics", "exclude"), [("orders,payments", ""), (".*", "orders,payments")])
def test_a_list_with_commas_is_refused(topics: str, exclude: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        a_job(topics, exclude)
    assert "orders|payments" in (refused.value.advice or "")


def test_an_exclusion_that_matches_no_topic_is_remarked_on(fakes: MirroredFakes) -> None:
    fakes.source.create_topic("orders", 1, 1)
    plan = planned(fakes, a_job(exclude="paymentz"))
    assert topics_of(plan) == {"orders"}
    (remark,) = plan.remarks
    assert "'paymentz'" in remark


def test_an_exclusion_that_matches_a_topic_needs_no_remark(fakes: MirroredFakes) -> None:
    for name in ("orders", "payments"):
        fakes.source.create_topic(name, 1, 1)
    plan = planned(fakes, a_job(exclude="payments"))
    assert (topics_of(plan), plan.remarks) == ({"orders"}, ())
