"""Test plans of a copy between two fake clusters: selected topics, and the state of their destinations."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mirror.errors import InvalidRequest, Refused, Unreachable
from mirror.jobs.copy_job import CopyJob, CopyPlan, plan_copy, plan_left_out
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.start_positions import positions_of_options
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicSelection
from tests.fakes.broker.faults import Code, HandledRequest
from tests.fakes.broker.mirrored import MirroredFakes

CREATE_TOPICS, CREATE_PARTITIONS = 19, 37
SOURCE, DESTINATION = ClusterRef("source"), ClusterRef("destination")


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


def test_a_setting_below_the_least_of_the_destination_is_clamped(fakes: MirroredFakes) -> None:
    fakes.source.create_topic("small", 1, 1, segment_bytes="1024", retention_ms="5000")
    plan = planned(fakes, a_job())
    assert topics_of(plan) == {"small"}
    made = fakes.target.topics["small"].own
    assert (made["segment.bytes"], made["retention.ms"]) == ("1048576", "5000")
    (sentence,) = plan.changes.adjusted
    assert re.match(r"small: segment\.bytes .*\b1048576\b.*\b1024\b", sentence)
    assert plan.failures == {}


def test_a_setting_that_a_policy_names_is_left_out(fakes: MirroredFakes) -> None:
    fakes.target.create_policy = lambda _, settings: (
        "retention.ms is set" if "retention.ms" in settings else ""
    )
    fakes.source.create_topic("kept", 1, 1, segment_bytes="2097152", retention_ms="5000")
    plan = planned(fakes, a_job())
    made = fakes.target.topics["kept"].own
    assert (made["segment.bytes"], "retention.ms" in made) == ("2097152", False)
    assert [sentence.split(" is ")[0] for sentence in plan.changes.adjusted] == ["kept: retention.ms"]


def test_a_refused_setting_without_a_name_is_found(fakes: MirroredFakes) -> None:
    fakes.source.create_topic("kept", 1, 1, cleanup_policy="compact", segment_bytes="2097152")

    def refuse(asked: HandledRequest) -> bool:
        return any(one.name == "segment.bytes" for topic in asked.message.topics for one in topic.configs)

    fakes.target.faults.plant(CREATE_TOPICS, Code(40), fits=refuse, times=None)
    plan = planned(fakes, a_job())
    made = fakes.target.topics["kept"].own
    assert (made["cleanup.policy"], "segment.bytes" in made) == ("compact", False)
    assert [sentence.split(" is ")[0] for sentence in plan.changes.adjusted] == ["kept: segment.bytes"]


def test_a_topic_that_cannot_be_created_stops_no_other(fakes: MirroredFakes) -> None:
    fakes.target.create_policy = lambda topic, _: "no such names" if topic == "bad" else ""
    for name in ("a", "bad", "z"):
        fakes.source.create_topic(name, 1, 1)
    plan = planned(fakes, a_job())
    assert topics_of(plan) == {"a", "z"} == set(plan.changes.created)
    assert plan.failures.keys() == {"bad"}


def test_a_topic_that_cannot_grow_stops_no_other(fakes: MirroredFakes) -> None:
    for name in ("a", "z"):
        fakes.source.create_topic(name, 3, 1)
        fakes.target.create_topic(name, 1, 1)
    fakes.target.faults.plant(CREATE_PARTITIONS, Code(44, "a"), times=None)
    plan = planned(fakes, a_job())
    assert (topics_of(plan), set(plan.failures)) == ({"z"}, {"a"})


def test_a_copy_of_which_nothing_can_be_created_fails(fakes: MirroredFakes) -> None:
    fakes.target.create_policy = lambda *_: "nothing at all"
    fakes.source.create_topic("a", 1, 1)
    with pytest.raises(Refused):
        planned(fakes, a_job())


def test_excluded_settings_are_not_carried(fakes: MirroredFakes) -> None:
    fakes.source.create_topic("t", 1, 1, segment_bytes="2097152", retention_ms="5000")
    planned(fakes, a_job(excluded_settings=frozenset({"segment.bytes"})))
    assert fakes.target.topics["t"].own.keys() & {"segment.bytes", "retention.ms"} == {"retention.ms"}


def test_defaults_of_the_sources_brokers_are_carried_and_reported(fakes: MirroredFakes) -> None:
    fakes.target.create_topic("headrace-progress", 8, 1, cleanup_policy="compact")
    fakes.source.defaults["retention.ms"] = "2592000000"
    fakes.source.create_topic("t", 1, 1)
    plan = planned(fakes, a_job())
    made = fakes.target.topics["t"].own
    assert (made["retention.ms"], "retention.bytes" in made) == ("2592000000", False)
    assert plan.changes.supplied["t"]["retention.ms"] == "2592000000"


@pytest.mark.parametrize("how", ["take_down", "freeze"])
def test_a_copy_with_an_unreachable_broker_leaves_out_its_partitions_only(
    fakes: MirroredFakes, how: str
) -> None:
    """The plan names these partitions with the broker, and the copy is incomplete."""
    fakes.source.create_topic("orders", 4, 1)
    fakes.target.create_topic("orders", 4, 1)
    there = {number for number in range(4) if fakes.source.partition("orders", number).leader == 1}
    getattr(fakes.source, how)(2)
    plan = planned(fakes, a_job("orders", until_end=True))
    assert {spec.key.partition.partition for spec in plan.specs} == there
    assert {place.partition for place in plan.unknown_ends} == set(range(4)) - there
    assert all(isinstance(error, Unreachable) for error in plan.unknown_ends.values())
    assert plan.failures.keys() == {f"orders-{number}" for number in set(range(4)) - there}


def test_a_copy_whose_source_has_no_end_of_any_partition_fails(fakes: MirroredFakes) -> None:
    fakes.source.create_topic("orders", 1, 1)
    fakes.target.create_topic("orders", 1, 1)
    fakes.source.take_down(fakes.source.partition("orders").leader)
    with pytest.raises(Unreachable):
        planned(fakes, a_job("orders", until_end=True))


def test_what_was_left_out_is_planned_once_more(fakes: MirroredFakes) -> None:
    """This includes the rejected topic and the partition without a leader, but no copied partition."""
    fakes.source.create_topic("orders", 2, 1)
    fakes.target.create_topic("orders", 2, 1)
    fakes.source.create_topic("bad", 1, 2)
    fakes.target.create_policy = lambda topic, _: "no such names" if topic == "bad" else ""
    fakes.source.take_down(2)
    job = a_job(until_end=True)
    first = planned(fakes, job)
    assert len(first.specs) == 1
    assert len(first.failures) == 2
    fakes.source.bring_up(2)
    second = fakes.context.run(plan_left_out(fakes.context, job, first))
    assert topics_of(second) == {"orders"}
    assert second.failures.keys() == {"bad"}
    fakes.target.create_policy = None
    third = fakes.context.run(plan_left_out(fakes.context, job, first.followed_by(second)))
    whole = first.followed_by(second).followed_by(third)
    assert sorted(str(spec.key.partition) for spec in whole.specs) == ["bad-0", "orders-0", "orders-1"]
    assert (whole.failures, whole.changes.created) == ({}, ["bad"])


def test_a_partition_that_is_added_to_a_copy_from_the_end_begins_at_its_beginning(
    fakes: MirroredFakes,
) -> None:
    fakes.make_topic("t")
    job = CopyJob("g-t", SOURCE, DESTINATION, TopicSelection("t|u"), start=StartPosition.LATEST)
    (first,) = planned(fakes, job).specs
    assert first.start is StartPosition.LATEST
    fakes.write("t", 0, 5)
    fakes.start("t")
    fakes.run_to("t", 5)
    fakes.stop()
    fakes.source.create_topic("u", 1)
    fakes.new_engine()
    starts = {spec.key.partition.topic: spec.start for spec in planned(fakes, job).specs}
    assert starts == {"t": StartPosition.LATEST, "u": StartPosition.EARLIEST}


def test_partitions_of_a_copy_begin_at_their_positions(fakes: MirroredFakes) -> None:
    fakes.make_topic("t", 2)
    fakes.make_topic("u", 2)
    positions = positions_of_options("--start-position", ["t:1=12", "*:0=3"])
    found = planned(fakes, a_job(positions=positions))
    offsets = {str(spec.key.partition): spec.start_offset for spec in found.specs}
    assert offsets == {"t-0": None, "t-1": 12, "u-0": 3, "u-1": None}
