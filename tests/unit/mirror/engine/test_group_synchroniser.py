"""Test the leader's thread that synchronises consumer groups, between fake clusters and in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from api.metrics.collector import GroupCollector
from headrace.threads.group_synchroniser import PART, GroupSynchroniser
from mirror.instance.health import Health
from mirror.jobs.groups.decision import FollowReason
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import DatastreamName
from tests.builders import a_datastream
from tests.fakes.broker.faults import Code
from tests.fakes.broker.mirrored import MirroredFakes
from tests.unit.mirror.engine.test_group_following import LIST_GROUPS, Following, following

__all__ = ["following"]
ORDERS, OTHERS = DatastreamName("orders"), DatastreamName("others")


class SynchroniserRig:
    """A synchroniser that leads for some seconds of virtual time."""

    def __init__(self, following: Following, datastreams: Sequence[Datastream]) -> None:
        self.following = following
        self.datastreams = list(datastreams)
        self.health = Health()
        self.hidden: set[str] = set()
        self.until = 0.0
        self.synchroniser = GroupSynchroniser(
            lambda: self.datastreams,
            lambda group, _: "not allowed" if group in self.hidden else "",
            lambda: nullcontext(following.context),
            lambda: following.fakes.clock.monotonic() < self.until,
            self.health,
        )

    def lead(self, seconds: float) -> None:
        self.until = self.following.fakes.clock.monotonic() + seconds
        self.synchroniser.lead(self.following.context)

    @property
    def metrics(self) -> dict[tuple[str, ...], float]:
        collector = GroupCollector(lambda: self.synchroniser.statuses, self.following.fakes.clock)
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in collector.collect()
            for sample in family.samples
        }


def orders(name: str = "orders", **metadata: str) -> Datastream:
    keys = {"headrace-groups": "billing|audit|own", "system.taskPrefix": "orders", **metadata}
    return a_datastream(name, metadata={"owner": "tests", **keys})


@pytest.fixture
def rig(following: Following) -> SynchroniserRig:
    return SynchroniserRig(following, [orders()])


def test_groups_follow_at_the_interval(rig: SynchroniserRig) -> None:
    rig.following.at_source(12)
    rig.lead(3)
    assert rig.following.at_target() == 17
    rig.following.at_source(14)
    rig.lead(1)
    assert rig.following.at_target() == 17
    rig.lead(5)
    assert rig.following.at_target() == 19
    status = rig.synchroniser.statuses[ORDERS]
    assert (status.groups, dict(status.hindered), status.failure) == (1, {}, "")
    assert rig.health.conditions()[PART].is_well
    assert rig.metrics["headrace_consumer_groups", "orders"] == 1
    assert rig.metrics["headrace_consumer_groups_age_seconds", "orders"] < 6


def test_groups_follow_at_a_fraction_of_a_second(rig: SynchroniserRig) -> None:
    rig.datastreams = [orders(**{"headrace-groups-interval": "0.1"})]
    rig.following.at_source(12)
    rig.lead(2)
    assert rig.following.at_target() == 17
    for offset in range(13, 20):
        rig.following.at_source(offset)
        rig.lead(0.4)
        assert rig.following.at_target() == offset + 5


def test_groups_follow_in_both_directions_if_the_datastream_says_so(rig: SynchroniserRig) -> None:
    source, target = rig.following.fakes.source, rig.following.fakes.target
    rig.following.at_source(12)
    rig.lead(2)
    target.groups["billing"]["t", 0] = 20
    rig.lead(6)
    assert source.groups["billing"]["t", 0] == 12
    rig.datastreams = [orders(**{"headrace-groups-direction": "both"})]
    rig.lead(2)
    assert source.groups["billing"]["t", 0] == 15
    rig.following.at_source(12)
    target.groups["billing"]["t", 0] = 22
    rig.lead(6)
    assert rig.synchroniser.statuses[ORDERS].hindered == {"billing": FollowReason.BOTH_CHANGED}


def test_a_group_that_does_not_follow_is_in_health_and_metrics(rig: SynchroniserRig) -> None:
    rig.following.at_source(12)
    rig.following.fakes.target.group_states["billing"] = ("Classic", "Stable")
    rig.lead(2)
    assert rig.synchroniser.statuses[ORDERS].hindered == {"billing": FollowReason.MEMBERS}
    assert "billing" in rig.health.conditions()[PART].sentence
    assert rig.metrics["headrace_consumer_groups_hindered", "orders", "members there"] == 1


def test_own_and_hidden_groups_do_not_follow(rig: SynchroniserRig) -> None:
    for group in ("billing", "audit", "own"):
        rig.following.at_source(12, group)
    rig.datastreams.append(a_datastream("reader", metadata={"owner": "tests", "group.id": "own"}))
    rig.hidden = {"audit"}
    rig.lead(2)
    assert rig.following.fakes.target.groups.keys() == {"billing"}


def test_it_starts_changes_and_ends_with_the_definition(rig: SynchroniserRig) -> None:
    for group in ("billing", "audit"):
        rig.following.at_source(12, group)
    rig.datastreams = [a_datastream("orders")]
    rig.lead(2)
    assert not rig.following.fakes.target.groups
    assert PART not in rig.health.conditions()
    rig.datastreams = [orders(**{"headrace-groups": "audit"})]
    rig.lead(2)
    assert rig.following.fakes.target.groups.keys() == {"audit"}
    rig.datastreams = [orders()]
    rig.lead(2)
    assert rig.following.fakes.target.groups.keys() == {"audit", "billing"}
    rig.datastreams = [a_datastream("orders", status=DatastreamStatus.DELETING)]
    rig.following.at_source(13)
    rig.lead(7)
    assert rig.following.at_target() == 17
    assert not rig.synchroniser.statuses


def test_an_unavailable_source_turns_the_part_red_and_others_follow(rig: SynchroniserRig) -> None:
    rig.following.at_source(12)
    rig.datastreams.append(orders("others"))
    rig.lead(2)
    rig.following.fakes.source.faults.plant(LIST_GROUPS, Code(31), times=None)
    rig.lead(6)
    assert not rig.health.conditions()[PART].is_well
    assert rig.synchroniser.statuses[ORDERS].failure
    rig.following.fakes.source.faults.clear()
    rig.lead(6)
    assert rig.health.conditions()[PART].is_well


def test_a_frozen_cluster_delays_only_its_own_groups(fakes: MirroredFakes, rig: SynchroniserRig) -> None:
    rig.following.at_source(12)
    elsewhere = orders("others")
    rig.datastreams.append(elsewhere)
    rig.lead(2)
    assert set(rig.synchroniser.statuses) == {ORDERS, OTHERS}
    for node in fakes.source.brokers:
        fakes.source.freeze(node)
    rig.lead(15)
    assert all(one.failure for one in rig.synchroniser.statuses.values())
    for node in fakes.source.brokers:
        fakes.source.thaw(node)
    rig.following.at_source(15)
    rig.lead(30)
    assert rig.following.at_target() == 20


def test_a_datastream_back_stops_the_groups_of_its_topics(rig: SynchroniserRig) -> None:
    back = a_datastream("back", source=rig.datastreams[0].destination, destination=rig.datastreams[0].source)
    rig.datastreams.append(back)
    rig.following.at_source(12)
    rig.lead(2)
    assert rig.synchroniser.statuses[ORDERS].hindered == {"billing": FollowReason.TWO_WAY}
    assert rig.following.at_target() is None
