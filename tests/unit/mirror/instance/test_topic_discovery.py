"""Test the leader's discovery of topics, and the topics that it creates at destinations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from mirror.control.admission import Admission, ClusterRights
from mirror.coordination.datastream_records.made_topics import MadeTopics
from mirror.coordination.stores import znodes
from mirror.errors import NotAuthorized, Refused, TimedOut, Unreachable
from mirror.instance.background_calls import CallPending
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.datastreams.policy import ADOPT_EXISTING
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicDescription, TopicNaming
from tests.builders import DESTINATION, SOURCE, a_datastream
from tests.fakes.clock import ManualClock
from tests.fakes.instances import OWN_TOPICS, topic_discovery_of
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin


class DiscoveryRig:
    def __init__(self) -> None:
        self.source, self.destination, self.clock = FakeTopicAdmin(t=2), FakeTopicAdmin(), ManualClock()
        clusters: dict[ClusterRef, FakeTopicAdmin] = {SOURCE: self.source, DESTINATION: self.destination}
        self.session = FakeZooKeeper().session()
        self.topic_discovery = topic_discovery_of(self.session, clusters, self.clock)

    def look(self, *clusters: ClusterRef, without: str = "") -> None:
        """List the topics of these clusters and allow the datastream to copy all except `without`."""
        left_out = {a_datastream().name: frozenset({without})}
        self.topic_discovery.leave_out(left_out, self.topic_discovery.topics(clusters))


@pytest.fixture
def land() -> DiscoveryRig:
    return DiscoveryRig()


def test_a_cluster_is_asked_once_an_interval(land: DiscoveryRig) -> None:
    for _ in range(5):
        assert land.topic_discovery.topics([SOURCE]) == {SOURCE: {"t": 2}}
    assert land.source.asked == 2  # its id and its topics
    land.clock.advance(3.0)
    land.source.grow("t", 3)
    asked = land.source.asked
    assert land.topic_discovery.topics([SOURCE]) == {SOURCE: {"t": 3}}
    assert land.source.asked == asked + 2


def test_an_outage_is_logged_once_at_its_start_and_once_at_its_end(land: DiscoveryRig) -> None:
    failures = [Unreachable("refused"), TimedOut("late"), Unreachable("refused")]
    with capture_logs() as lines:
        for _ in range(2):
            for failure in (*failures, TimedOut("late"), None):
                land.source.failure = failure
                land.clock.advance(3.0)
                land.topic_discovery.topics([SOURCE])
    assert [line["event"] for line in lines] == 2 * ["cannot read cluster", "reading cluster again"]
    assert lines[0]["reason"] == "refused"


def test_a_cluster_that_does_not_answer_is_missing_and_named_until_it_does(land: DiscoveryRig) -> None:
    land.topic_discovery.topics([SOURCE, DESTINATION])
    land.source.failure = Unreachable("gone fishing")
    land.clock.advance(3.0)
    assert land.topic_discovery.topics([SOURCE, DESTINATION]) == {DESTINATION: {}}
    assert {one: str(error) for one, error in land.topic_discovery.problems.items()} == {
        SOURCE: "gone fishing"
    }
    land.source.failure = None
    land.clock.advance(3.0)
    assert SOURCE in land.topic_discovery.topics([SOURCE])
    assert land.topic_discovery.problems == {}


def test_while_a_cluster_is_asked_again_its_problem_stays_what_it_was(land: DiscoveryRig) -> None:
    land.source.failure = Unreachable("gone fishing")
    land.topic_discovery.topics([SOURCE])
    land.source.failure = CallPending("no answer yet")
    land.clock.advance(3.0)
    land.topic_discovery.topics([SOURCE])
    assert str(land.topic_discovery.problem(SOURCE)) == "gone fishing"


def test_a_cluster_that_does_not_answer_is_not_asked_at_every_tick(land: DiscoveryRig) -> None:
    land.source.failure = Unreachable("gone fishing")
    for _ in range(5):
        land.topic_discovery.topics([SOURCE])
    assert land.source.asked == 1


def test_a_destination_is_prepared_once_and_again_when_the_source_has_changed(land: DiscoveryRig) -> None:
    datastream = a_datastream()
    land.look(SOURCE)
    (work,) = land.topic_discovery.prepare_destination(datastream, set)
    assert (work.topic.name, work.create) == ("t", True)
    asked = land.destination.asked
    assert land.topic_discovery.prepare_destination(datastream, set) == ()
    assert land.destination.asked == asked
    land.source.grow("t", 4)
    land.clock.advance(3.0)
    land.look(SOURCE)
    (work,) = land.topic_discovery.prepare_destination(datastream, set)
    assert (work.topic.partitions, work.create) == (4, False)
    assert land.destination.list_topics() == {"t": 4}


def test_a_destination_is_prepared_for_a_datastream_and_not_for_each_of_its_states(
    land: DiscoveryRig,
) -> None:
    land.look(SOURCE)
    states = (DatastreamStatus.INITIALIZING, DatastreamStatus.READY, DatastreamStatus.READY)
    assert land.topic_discovery.prepare_destination(a_datastream(status=states[0]), set)
    asked, stored = land.destination.asked, len(land.session.log)
    for status in states:
        assert land.topic_discovery.prepare_destination(a_datastream(status=status), set) == ()
    assert (land.destination.asked, len(land.session.log)) == (asked, stored)
    land.topic_discovery.prepare_destination(a_datastream(status=states[1], metadata={"owner": "x"}), set)
    assert land.destination.asked > asked


def test_what_could_not_be_prepared_is_tried_again(land: DiscoveryRig) -> None:
    land.look(SOURCE)
    land.destination.failure = Refused("no")
    with pytest.raises(Refused):
        land.topic_discovery.prepare_destination(a_datastream(), set)
    land.destination.failure = None
    assert land.topic_discovery.prepare_destination(a_datastream(), set)


def test_a_topic_that_is_refused_stops_no_other_and_is_tried_again(land: DiscoveryRig) -> None:
    land.source.topics["a"] = TopicDescription("a", 1)
    land.source.topics["u"] = TopicDescription("u", 1)
    land.destination.refused["t"] = Refused("a policy forbids it")
    assert prepared(land, a_datastream()) == {"t": "a policy forbids it"}
    assert sorted(land.destination.list_topics()) == ["a", "u"]
    assert wanted(land, a_datastream()) == 2
    del land.destination.refused["t"]
    land.clock.advance(61.0)
    assert prepared(land, a_datastream()) == {}
    assert sorted(land.destination.list_topics()) == ["a", "t", "u"]
    assert wanted(land, a_datastream()) == 4


def test_a_topic_that_cannot_grow_is_copied_as_far_as_it_goes(land: DiscoveryRig) -> None:
    assert prepared(land, a_datastream()) == {}
    land.source.grow("t", 4)
    land.source.topics["u"] = TopicDescription("u", 1)
    land.destination.refused["t"] = Refused("no more partitions")
    assert prepared(land, a_datastream()) == {"t": "no more partitions"}
    assert wanted(land, a_datastream()) == 3


def test_settings_that_the_destination_refuses_are_reported(land: DiscoveryRig) -> None:
    land.destination.adjustments = ("t: segment.bytes is 1048576 instead of 1024",)
    prepared(land, a_datastream())
    assert land.topic_discovery.drift(a_datastream()) == land.destination.adjustments


DENIED = NotAuthorized("cannot read the settings of topic t: grant DescribeConfigs on topic t")


def test_a_topic_whose_settings_are_unreadable_is_not_created_and_stops_no_other(land: DiscoveryRig) -> None:
    land.source.topics["u"] = TopicDescription("u", 1, settings={"cleanup.policy": "compact"})
    land.source.unreadable["t"] = DENIED
    found = prepared(land, a_datastream())
    assert found.keys() == {"t"}
    assert "DescribeConfigs on topic t" in found["t"]
    assert land.destination.topics.keys() == {"u"}
    assert land.destination.topics["u"].settings["cleanup.policy"] == "compact"
    assert wanted(land, a_datastream()) == 1
    made = MadeTopics(land.session).of(a_datastream().group)
    assert made is not None
    assert made[DESTINATION] == {"u"}
    land.source.unreadable = {}
    assert prepared(land, a_datastream()).keys() == {"t"}, "it is not requested at every tick"
    land.clock.advance(60.0)
    assert prepared(land, a_datastream()) == {}
    assert land.destination.list_topics() == {"t": 2, "u": 1}


def test_settings_that_are_late_delay_only_their_topic(land: DiscoveryRig) -> None:
    land.source.topics["u"] = TopicDescription("u", 1)
    land.source.unreadable["t"] = Unreachable("timed out")
    assert prepared(land, a_datastream()) == {}
    assert land.destination.list_topics() == {"u": 1}
    with pytest.raises(Unreachable, match="timed out"):
        prepared(land, a_datastream())
    land.source.unreadable = {}
    assert prepared(land, a_datastream()) == {}
    assert land.destination.list_topics() == {"t": 2, "u": 1}


@pytest.mark.parametrize("side", ["source", "destination"])
def test_existing_topics_are_extended_and_compared_beside_an_unreadable_one(
    land: DiscoveryRig, side: str
) -> None:
    land.source.topics["u"] = TopicDescription("u", 1, settings={"retention.ms": "1000"})
    prepared(land, a_datastream())
    settings = {**land.destination.topics["u"].settings, "retention.ms": "5"}
    land.destination.topics["u"] = TopicDescription("u", 1, settings=settings)
    getattr(land, side).unreadable["t"] = DENIED
    land.source.grow("t", 4)
    assert prepared(land, a_datastream()) == {}
    assert land.destination.list_topics() == {"t": 4, "u": 1}
    land.clock.advance(600.0)
    assert prepared(land, a_datastream()) == {}
    unknown, different = land.topic_discovery.drift(a_datastream())
    assert re.match(r"t: .*\bDescribeConfigs on topic t\b", unknown)
    assert re.match(r"u: retention\.ms ", different)


def test_defaults_of_a_destination_are_read_from_a_readable_topic(land: DiscoveryRig) -> None:
    defaults = {"retention.ms": "604800000"}
    land.destination.topics["a"] = TopicDescription("a", 1)
    land.destination.topics["b"] = TopicDescription("b", 1, defaults=defaults)
    land.destination.unreadable["a"] = DENIED
    land.source.topics["t"] = TopicDescription("t", 2, defaults=defaults)
    assert prepared(land, a_datastream()) == {}
    assert "retention.ms" not in land.destination.topics["t"].settings
    land.destination.unreadable = dict.fromkeys(("a", "b", "t"), DENIED)
    land.source.topics["u"] = TopicDescription("u", 2, defaults=defaults)
    assert prepared(land, a_datastream()) == {}
    assert land.destination.topics["u"].settings["retention.ms"] == "604800000"


def test_excluded_settings_are_neither_carried_nor_compared(land: DiscoveryRig) -> None:
    land.source.topics["t"] = TopicDescription("t", 1, settings={"segment.bytes": "7", "retention.ms": "5"})
    datastream = a_datastream(metadata={"owner": "x", "headrace.excluded-settings": "segment.bytes"})
    prepared(land, datastream)
    made = land.destination.topics["t"].settings
    assert (made["retention.ms"], "segment.bytes" in made) == ("5", False)
    land.clock.advance(601.0)
    prepared(land, datastream)
    assert land.topic_discovery.drift(datastream) == ()


def test_another_destination_under_the_same_name_is_another_preparation(land: DiscoveryRig) -> None:
    land.look(SOURCE)
    land.topic_discovery.prepare_destination(a_datastream(), set)
    land.topic_discovery.prepare_destination(a_datastream(naming=TopicNaming("copy.*")), set)
    land.topic_discovery.prepare_destination(
        replace(a_datastream(naming=TopicNaming("x.*")), destination=SOURCE), set
    )
    assert sorted(land.destination.list_topics()) == ["copy.t", "t"]
    assert sorted(land.source.list_topics()) == ["t", "x.t"]


def test_an_unknown_source_prepares_nothing(land: DiscoveryRig) -> None:
    assert land.topic_discovery.prepare_destination(a_datastream(), set) == ()
    assert land.destination.asked == 0


def test_own_topics_are_made_once_each_as_soon_as_they_can(land: DiscoveryRig) -> None:
    for name in ("one", "two"):
        land.topic_discovery.own_topics.need(DESTINATION, TopicDescription(name, 4))
    land.topic_discovery.own_topics.need(SOURCE, TopicDescription("three", 4))
    land.destination.failure = Unreachable("not yet")
    land.topic_discovery.own_topics.ensure()
    assert "three" in land.source.list_topics()
    land.destination.failure = None
    land.topic_discovery.own_topics.ensure()
    asked = land.destination.asked
    land.topic_discovery.own_topics.ensure()
    assert land.destination.asked == asked
    assert land.destination.list_topics() == {"one": 4, "two": 4}


def test_settings_that_differ_are_told_and_left_alone(land: DiscoveryRig) -> None:
    land.source.topics["t"] = TopicDescription("t", 2, settings={"retention.ms": "1000"})
    land.look(SOURCE)
    datastream = a_datastream()
    land.topic_discovery.prepare_destination(datastream, set)
    assert land.topic_discovery.drift(datastream) == ()
    settings = {**land.destination.topics["t"].settings, "retention.ms": "5"}
    land.destination.topics["t"] = TopicDescription("t", 2, settings=settings)
    land.topic_discovery.prepare_destination(datastream, set)
    assert land.topic_discovery.drift(datastream) == ()
    land.clock.advance(600.0)
    assert land.topic_discovery.prepare_destination(datastream, set) == ()
    (sentence,) = land.topic_discovery.drift(datastream)
    assert re.match(r"t: retention\.ms .*\b5\b.*\b1000\b", sentence)
    assert land.destination.topics["t"].settings["retention.ms"] == "5"


def test_a_destination_topic_that_somebody_deleted_is_made_again(land: DiscoveryRig) -> None:
    land.look(SOURCE)
    land.topic_discovery.prepare_destination(a_datastream(), set)
    del land.destination.topics["t"]
    land.clock.advance(600.0)
    (work,) = land.topic_discovery.prepare_destination(a_datastream(), set)
    assert (work.topic.name, work.create) == ("t", True)


class DelayedCalls:
    """A `BackgroundCalls` that returns the result for a datastream at the second call."""

    def __init__(self) -> None:
        self._waiting: dict[str, Any] = {}
        self._served: set[str] = set()

    def ask(self, line: str, key: str, job: Callable[[], Any]) -> Any:
        """Run the job, or raise CallPending at the first call for its key."""
        if not line.startswith("topics at") or key in self._served:
            return job()
        if key not in self._waiting:
            self._waiting[key] = job()
            raise CallPending(key)
        self._served.add(key)
        return self._waiting.pop(key)


def test_a_late_answer_does_not_stand_for_what_has_changed_since_it_was_asked_for(land: DiscoveryRig) -> None:
    clusters: dict[ClusterRef, FakeTopicAdmin] = {SOURCE: land.source, DESTINATION: land.destination}
    topic_discovery = land.topic_discovery = topic_discovery_of(
        land.session, clusters, land.clock, DelayedCalls()
    )
    land.look(SOURCE)
    with pytest.raises(CallPending):
        topic_discovery.prepare_destination(a_datastream(), set)
    land.source.grow("t", 5)
    land.clock.advance(3.0)
    land.look(SOURCE)
    (first,) = topic_discovery.prepare_destination(a_datastream(), set)
    (second,) = topic_discovery.prepare_destination(a_datastream(), set)
    assert topic_discovery.prepare_destination(a_datastream(), set) == ()
    assert (first.topic.partitions, second.topic.partitions) == (2, 5)
    assert land.destination.list_topics() == {"t": 5}


def prepared(land: DiscoveryRig, datastream: Datastream, without: str = "") -> dict[str, str]:
    """Prepare the destination once more and return the reasons of shortfalls by topic.

    `without`: a topic that must not be copied.
    """
    land.clock.advance(3.0)
    land.look(SOURCE, DESTINATION, without=without)
    land.topic_discovery.prepare_destination(datastream, set)
    return {topic: one.reason for topic, one in land.topic_discovery.shortfalls(datastream).items()}


def wanted(land: DiscoveryRig, datastream: Datastream) -> int:
    topics = land.topic_discovery.topics([SOURCE])
    return len(land.topic_discovery.matching.wanted([datastream], topics) or ())


def test_a_topic_that_was_there_before_does_not_grow(land: DiscoveryRig) -> None:
    land.destination.create(TopicDescription("t", 2))
    assert prepared(land, a_datastream()) == {}
    land.source.grow("t", 5)
    found = prepared(land, a_datastream())
    assert found.keys() == {"t"}
    assert re.search(r"\b5 partitions\b.*\bt\b.*\b2\b", found["t"])
    assert land.destination.list_topics() == {"t": 2}
    assert wanted(land, a_datastream()) == 2
    land.destination.grow("t", 5)
    assert prepared(land, a_datastream()) == {}
    assert wanted(land, a_datastream()) == 5


def test_it_grows_when_its_owner_wants_it(land: DiscoveryRig) -> None:
    land.destination.create(TopicDescription("t", 1))
    assert prepared(land, a_datastream(metadata={"headrace.grow-existing": "true"})) == {}
    assert land.destination.list_topics() == {"t": 2}


def test_what_was_there_is_written_where_it_is_adopted(land: DiscoveryRig) -> None:
    clusters: dict[ClusterRef, FakeTopicAdmin] = {SOURCE: land.source, DESTINATION: land.destination}
    reserved = Admission({DESTINATION: ClusterRights(adopters=["others"])})
    land.topic_discovery = topic_discovery_of(land.session, clusters, land.clock, admission=lambda: reserved)
    land.destination.create(TopicDescription("t", 2))
    land.source.topics["u"] = TopicDescription("u", 1)
    assert f"{ADOPT_EXISTING} = true" in prepared(land, a_datastream())["t"]
    assert wanted(land, a_datastream()) == 1
    assert land.destination.list_topics() == {"t": 2, "u": 1}
    asked = land.destination.asked
    assert prepared(land, a_datastream()).keys() == {"t"}
    assert land.destination.asked == asked + 2  # as usual: its id and its topics
    del land.destination.topics["t"]
    assert prepared(land, a_datastream()) == {}
    land.source.grow("t", 3)
    assert prepared(land, a_datastream()) == {}
    assert land.destination.list_topics() == {"t": 3, "u": 1}


def narrowed(land: DiscoveryRig) -> DiscoveryRig:
    """Restart discovery with the right to adopt topics reserved for others."""
    clusters: dict[ClusterRef, FakeTopicAdmin] = {SOURCE: land.source, DESTINATION: land.destination}
    reserved = Admission({DESTINATION: ClusterRights(adopters=["others"])})
    land.topic_discovery = topic_discovery_of(land.session, clusters, land.clock, admission=lambda: reserved)
    return land


def test_what_was_adopted_is_written_also_by_who_may_not_adopt_any_more(land: DiscoveryRig) -> None:
    land.destination.create(TopicDescription("t", 2))
    assert prepared(land, a_datastream()) == {}
    land.source.topics["u"] = TopicDescription("u", 1)
    land.destination.create(TopicDescription("u", 1))
    assert prepared(narrowed(land), a_datastream()).keys() == {"u"}
    assert wanted(land, a_datastream()) == 2
    land.source.grow("t", 3)
    assert "add partitions" in prepared(land, a_datastream())["t"]
    assert wanted(land, a_datastream()) == 2
    never = a_datastream(metadata={"owner": "x", "headrace.adopt-existing": "false"})
    assert f"{ADOPT_EXISTING} = true" in prepared(narrowed(land), never)["t"]


def test_what_a_version_without_a_record_had_adopted_stays_adopted(land: DiscoveryRig) -> None:
    """Topics that are copied and not recorded as created count as adopted."""
    MadeTopics(land.session).add(a_datastream().group, DESTINATION, ["u"])
    for name in ("t", "u"):
        land.source.topics[name] = TopicDescription(name, 2)
        land.destination.create(TopicDescription(name, 2))
    narrowed(land).look(SOURCE)
    land.topic_discovery.prepare_destination(a_datastream(), lambda: {"t", "u"})
    assert land.topic_discovery.shortfalls(a_datastream()) == {}
    record = MadeTopics(land.session, znodes.ADOPTED)
    assert record.of(a_datastream().group) == {DESTINATION: frozenset({"t"})}
    land.session.delete(land.topic_discovery.claims.adopted_path(a_datastream().group))
    assert prepared(narrowed(land), a_datastream()).keys() == {"t"}


def test_what_an_older_version_made_and_copies_still_grows(land: DiscoveryRig) -> None:
    land.destination.create(TopicDescription("t", 2))
    land.source.grow("t", 3)
    land.look(SOURCE)
    (work,) = land.topic_discovery.prepare_destination(a_datastream(), lambda: {"t"})
    assert (work.topic.partitions, work.create) == (3, False)


def test_no_topic_is_made_or_grown_beyond_the_limit(land: DiscoveryRig) -> None:
    clusters: dict[ClusterRef, FakeTopicAdmin] = {SOURCE: land.source, DESTINATION: land.destination}
    land.topic_discovery = topic_discovery_of(land.session, clusters, land.clock, most_partitions=3)
    land.source.topics["u"] = TopicDescription("u", 4)
    assert re.search(
        r"\bmirror\.leader\.max_partitions_per_topic\b.*\b3$", prepared(land, a_datastream())["u"]
    )
    assert land.destination.list_topics() == {"t": 2}
    assert wanted(land, a_datastream()) == 2
    land.source.grow("t", 5_000)
    assert set(prepared(land, a_datastream())) == {"t", "u"}
    assert land.destination.list_topics() == {"t": 2}
    assert wanted(land, a_datastream()) == 2


def test_a_deleted_destination_topic_is_made_again_at_the_next_look(land: DiscoveryRig) -> None:
    prepared(land, a_datastream())
    del land.destination.topics["t"]
    prepared(land, a_datastream())
    assert land.destination.list_topics() == {"t": 2}


def test_what_is_left_out_is_not_made(land: DiscoveryRig) -> None:
    land.source.create(TopicDescription("u", 1))
    prepared(land, a_datastream(), without="u")
    assert land.destination.list_topics() == {"t": 2}
    assert wanted(land, a_datastream()) == 2
    prepared(land, a_datastream())
    assert land.destination.list_topics() == {"t": 2, "u": 1}


def test_own_topics_of_any_name_are_not_taken_by_accident(land: DiscoveryRig) -> None:
    for name in OWN_TOPICS:
        land.source.create(TopicDescription(name, 1))
    prepared(land, a_datastream())
    assert land.destination.list_topics() == {"t": 2}
    prepared(land, a_datastream(topics="own-progress"))
    assert "own-progress" in land.destination.list_topics()


def test_defaults_of_the_sources_brokers_are_carried(land: DiscoveryRig) -> None:
    here, there = ({"retention.ms": value, "cleanup.policy": "x"} for value in ("30", "7"))
    land.source.topics["t"] = TopicDescription("t", 1, defaults=here)
    land.destination.topics["a"] = TopicDescription("a", 1, defaults=there)
    prepared(land, a_datastream())
    made = land.destination.topics["t"].settings
    assert (made["retention.ms"], "cleanup.policy" in made) == ("30", False)
