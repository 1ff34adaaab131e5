"""Test the preparation of many destination topics, which takes several steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from structlog.testing import capture_logs

from mirror.coordination.stores import znodes
from mirror.coordination.stores.problems import TroubleStore
from mirror.errors import HeadraceError, Refused, Unreachable
from mirror.loggers import set_threshold
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.topics import TopicCreation, TopicDescription, TopicNaming
from tests.builders import DESTINATION, SOURCE, a_datastream
from tests.fakes.clock import ManualClock
from tests.fakes.instances import topic_discovery_of
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin
from tests.unit.mirror.instance.test_leader import LeaderService

MANY = 450
NAMES = [f"t{number:03}" for number in range(MANY)]


class Destination(FakeTopicAdmin):
    """Fake cluster that creates some topics only later. `late`: these topics, with their errors."""

    def __init__(self) -> None:
        super().__init__()
        self.late: dict[str, HeadraceError] = {}

    def _create(self, topic: TopicDescription) -> TopicCreation:
        if topic.name in self.late:
            return TopicCreation(self.late[topic.name])
        return super()._create(topic)


class Source(FakeTopicAdmin):
    """Fake cluster. `described`: number of topics of each request for settings."""

    def __init__(self, **topics: int) -> None:
        super().__init__(**topics)
        self.described: list[int] = []

    def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        self.described.append(len(topics))
        return super().describe(topics)


class ManyTopics:
    """Discovery of a source with many topics."""

    def __init__(self) -> None:
        self.clock, self.destination = ManualClock(), Destination()
        self.source = Source(**dict.fromkeys(NAMES, 1))
        clusters: dict[ClusterRef, FakeTopicAdmin] = {SOURCE: self.source, DESTINATION: self.destination}
        self.discovery = topic_discovery_of(FakeZooKeeper().session(), clusters, self.clock)
        self.datastream = a_datastream(topics="t.*")
        self.look()

    def look(self) -> None:
        self.discovery.leave_out({}, self.discovery.topics([SOURCE]))

    def step(self, datastream: Datastream | None = None) -> tuple[int, int]:
        """Make a step; return the number of topics changed and remaining."""
        member = datastream or self.datastream
        work = self.discovery.prepare_destination(member, set)
        return len(work), self.discovery.preparations.remaining(member)


@pytest.fixture
def land() -> ManyTopics:
    return ManyTopics()


def test_each_step_creates_as_many_topics_as_one_request(land: ManyTopics) -> None:
    assert [land.step() for _ in range(4)] == [(200, 250), (200, 50), (50, 0), (0, 0)]
    assert [len(names) for names in land.destination.created] == [200, 200, 50]
    assert land.destination.list_topics() == dict.fromkeys(NAMES, 1)
    land.clock.advance(601.0)
    assert land.step() == (0, 0)


def test_another_datastream_does_not_wait_for_all_steps(land: ManyTopics) -> None:
    land.step()
    small = a_datastream("small", topics="t000", naming=TopicNaming("copy.*"))
    assert land.step(small) == (1, 0)
    assert land.step() == (200, 50)


def test_settings_of_new_topics_are_read_once_and_not_compared(land: ManyTopics) -> None:
    while land.step()[1]:
        pass
    assert land.source.described == [200, 200, 50]
    assert land.discovery.drift(land.datastream) == ()


def test_a_rejected_topic_is_not_repeated_by_later_steps(land: ManyTopics) -> None:
    rejected = NAMES[:300]
    land.destination.refused = dict.fromkeys(rejected, Refused("a policy forbids it"))
    assert [land.step() for _ in range(3)] == [(0, 250), (100, 50), (50, 0)]
    assert land.discovery.shortfalls(land.datastream).keys() == set(rejected)
    assert land.destination.list_topics().keys() == set(NAMES) - set(rejected)
    assert land.step() == (0, 0)
    land.destination.refused = {}
    land.clock.advance(61.0)
    assert [land.step() for _ in range(2)] == [(200, 100), (100, 0)]
    assert land.discovery.shortfalls(land.datastream) == {}


def test_topics_that_the_controller_postpones_are_tried_again_beside_others(land: ManyTopics) -> None:
    land.destination.late = dict.fromkeys(NAMES[:10], Unreachable("throttled"))
    assert [land.step() for _ in range(3)] == [(190, 260), (190, 70), (60, 10)]
    with pytest.raises(Unreachable, match="throttled"):
        land.step()
    assert land.discovery.preparations.remaining(land.datastream) == 10
    land.destination.late = {}
    assert land.step() == (10, 0)


def test_a_failed_step_repeats_no_topic_that_exists(land: ManyTopics) -> None:
    land.step()
    land.destination.failure = Unreachable("connection lost")
    with pytest.raises(Unreachable):
        land.step()
    land.destination.failure = None
    land.destination.topics |= {name: TopicDescription(name, 1) for name in NAMES[200:300]}
    assert land.step() == (150, 0)
    assert land.destination.created[-1] == NAMES[300:]


def test_adjustments_of_all_steps_are_reported(land: ManyTopics) -> None:
    for number in range(3):
        land.destination.adjustments = (f"adjusted in step {number}",)
        land.step()
    assert len(land.discovery.drift(land.datastream)) == 3


def test_a_topic_that_its_source_no_longer_has_ends_no_step(land: ManyTopics) -> None:
    for name in NAMES[:220]:
        del land.source.topics[name]
    assert [land.step() for _ in range(3)] == [(0, 250), (180, 50), (50, 0)]


def test_another_definition_starts_from_the_first_step(land: ManyTopics) -> None:
    land.step()
    assert land.step(a_datastream(topics="t.*", naming=TopicNaming("copy.*"))) == (200, 250)


def test_topics_are_extended_by_steps_too(land: ManyTopics) -> None:
    while land.step()[1]:
        pass
    for name in NAMES:
        land.source.grow(name, 2)
    land.clock.advance(3.0)
    land.look()
    assert [land.step() for _ in range(3)] == [(200, 250), (200, 50), (50, 0)]
    assert set(land.destination.list_topics().values()) == {2}


def test_lanes_wait_for_topics_that_are_being_created_and_are_not_stalled() -> None:
    house, name = LeaderService(), DatastreamName("orders")
    house.source.topics = {topic: TopicDescription(topic, 1) for topic in NAMES}
    house.create(a_datastream("orders", "t.*"))
    trouble = {GroupName("orders"): "t449-0 waits for its destination topic (and 9 further partitions)"}
    TroubleStore(house.server.session()).publish(znodes.NO_TOPICS, 7, trouble)
    set_threshold("info")
    with capture_logs() as log:
        house.tick()
        assert house.rig.leader._awake.is_set(), "the next step follows at once"
        house.tick(2)
    assert [one["topics"] for one in log if one["event"] == "destination topics remaining"] == [250, 50]
    assert not [one for one in log if one["log_level"] == "error"]
    assert house.ill() == []
    with capture_logs() as log:
        house.tick(4)
        for number in range(3):
            trouble = {group: text.replace("9", str(number)) for group, text in trouble.items()}
            TroubleStore(house.server.session()).publish(znodes.NO_TOPICS, 7, trouble)
            house.tick()
    assert house.rig.stores.problems.all()[name].sets_aside, "they are stalled if no topic is being created"
    assert len([one for one in log if one["log_level"] == "error"]) == 1, "only its numbers change"
