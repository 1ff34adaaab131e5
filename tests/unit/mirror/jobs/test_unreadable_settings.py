"""Copies whose source does not show the settings of its topics."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.errors import NotAuthorized
from mirror.jobs.copy_job import CopyJob, CopyPlan, plan_copy
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicNaming, TopicSelection
from tests.fakes.broker.faults import Code
from tests.fakes.broker.mirrored import MirroredFakes

DESCRIBE_CONFIGS, CREATE_PARTITIONS, NOT_AUTHORIZED = 32, 37, 29


def planned(fakes: MirroredFakes, **more: Any) -> CopyPlan:
    job = CopyJob("s", ClusterRef("source"), ClusterRef("destination"), TopicSelection(".*"), **more)
    return fakes.context.run(plan_copy(fakes.context, job))


def hidden(fakes: MirroredFakes, topic: str) -> None:
    fakes.source.faults.plant(DESCRIBE_CONFIGS, Code(NOT_AUTHORIZED, topic), times=None)


def test_a_topic_is_not_created_with_other_settings_than_its_source(fakes: MirroredFakes) -> None:
    for name in ("a", "b"):
        fakes.source.create_topic(name, 1, 1, cleanup_policy="compact,delete")
    hidden(fakes, "a")
    plan = planned(fakes)
    assert plan.failures.keys() == {"a"}
    assert "DescribeConfigs on topic a" in plan.failures["a"]
    assert "--ignore-settings" in plan.failures["a"]
    assert "a" not in fakes.target.topics
    assert fakes.target.topics["b"].own["cleanup.policy"] == "compact,delete"


def test_a_copy_of_which_no_topic_can_be_created_fails(fakes: MirroredFakes) -> None:
    fakes.source.create_topic("a", 1, 1)
    hidden(fakes, "a")
    with pytest.raises(NotAuthorized):
        planned(fakes)


def test_it_is_created_all_the_same_on_request_and_reported(fakes: MirroredFakes) -> None:
    for name in ("a", "b"):
        fakes.source.create_topic(name, 1, 1, cleanup_policy="compact", retention_ms="5000")
    hidden(fakes, "a")
    plan = planned(fakes, ignores_settings=True, excluded_settings=frozenset({"retention.ms"}))
    assert plan.failures == {}
    assert "cleanup.policy" not in fakes.target.topics["a"].own
    assert plan.changes.not_carried == {"a": ["*"], "b": ["retention.ms"]}


def test_a_topic_that_exists_is_copied_and_its_settings_are_not_compared(fakes: MirroredFakes) -> None:
    fakes.make_topic("a")
    hidden(fakes, "a")
    plan = planned(fakes)
    assert [spec.key.partition.topic for spec in plan.specs] == ["a"]
    (sentence,) = plan.changes.drift
    assert "DescribeConfigs" in sentence


def test_many_topics_are_extended_with_one_request(fakes: MirroredFakes) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        fakes.source.create_topic(name, 3, 1)
        fakes.target.create_topic(name, 2, 1)
    fakes.target.faults.plant(CREATE_PARTITIONS, Code(NOT_AUTHORIZED, "t1"))
    plan = planned(fakes)
    assert fakes.target.faults.taken == 1
    assert plan.failures.keys() == {"t1"}
    assert "grant Alter on topic t1" in plan.failures["t1"]
    assert plan.changes.grown == ["t0", "t2", "t3", "t4"]
    assert {len(fakes.target.topics[name].partitions) for name in plan.changes.grown} == {3}


def test_one_cluster_on_both_sides_is_no_connector(fakes: MirroredFakes) -> None:
    one, files = ClusterRef("one"), ClusterRef("file:/folder")
    both = CopyJob("s", one, one, TopicSelection("t"), TopicNaming("copy-*"))
    assert not both.uses_connector
    for source, destination in ((one, files), (files, one)):
        assert CopyJob("s", source, destination, TopicSelection("t")).uses_connector
    fakes.source.create_topic("t", 1, 1)
    here = ClusterRef("source")
    job = CopyJob("s", here, here, TopicSelection("t"), TopicNaming("copy-*"), until_end=True)
    plan = fakes.context.run(plan_copy(fakes.context, job))
    assert [spec.destination_topic for spec in plan.specs] == ["copy-t"]
    assert "copy-t" in fakes.source.topics
