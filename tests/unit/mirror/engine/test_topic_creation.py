"""Test the creation and extension of many topics at a time: no failure of a topic affects another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import pytest

from mirror.adapters.kafka.session import ClusterSession
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster
from mirror.client.access import ClusterAccess, endpoints
from mirror.client.administration.creation import TopicCreations
from mirror.client.administration.extension import TopicExtensions
from mirror.errors import HeadraceError, NotAuthorized, Refused, TopicMissing, Unreachable
from mirror.model.datastreams.lanes import LanePaused, PauseCause
from mirror.model.topics import TopicDescription, first_request
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.faults import Code, Drop, Fault, HandledRequest, Run
from tests.fakes.broker.mirrored import MirroredFakes

CREATE_TOPICS, DESCRIBE_CONFIGS, CREATE_PARTITIONS = 19, 32, 37
NO_SETTINGS: Final[Mapping[str, str]] = {}
UNKNOWN_SERVER_ERROR, TIMED_OUT, NOT_AUTHORIZED, THROTTLED = -1, 7, 29, 89


class Creation:
    """Creation of topics at the destination, with the topics of each request in `requests`, except requests
    that meet a fault planted earlier."""

    def __init__(self, fakes: MirroredFakes, creations: TopicCreations) -> None:
        self._fakes = fakes
        self.requests: list[list[str]] = []
        self.creations = creations
        for api in (CREATE_TOPICS, CREATE_PARTITIONS):
            fakes.target.faults.plant(api, Run(lambda: None), times=None, fits=self._is_noted)

    def run(self) -> dict[str, HeadraceError | None]:
        """Run as the leader does, and return the error of each topic with a result."""
        loop, access = self._fakes.context.loop, ClusterAccess(endpoints(self._fakes.target.address))
        session = ClusterSession("b", "test", lambda: access)
        try:
            self._fakes.context.run(session.ask(loop, self.creations.run))
        finally:
            session.close()
        return self.errors

    @property
    def errors(self) -> dict[str, HeadraceError | None]:
        return {name: result.error for name, result in self.creations.results.items()}

    def _is_noted(self, asked: HandledRequest) -> bool:
        self.requests.append(names_of(asked))
        return False


def creation_of(fakes: MirroredFakes, wanted: Sequence[TopicDescription]) -> Creation:
    return Creation(fakes, TopicCreations(wanted, 1))


def names_of(asked: HandledRequest) -> list[str]:
    return [topic.name for topic in asked.message.topics]


def topics(
    names: Collection[str], partitions: int = 1, settings: Mapping[str, str] = NO_SETTINGS
) -> list[TopicDescription]:
    return [TopicDescription(name, partitions, settings=settings) for name in names]


def plant(fakes: MirroredFakes, fault: Fault, topic: str = "", times: int | None = 1) -> None:
    """Plant a fault of the requests that create the topic."""
    fakes.target.faults.plant(
        CREATE_TOPICS, fault, times=times, fits=lambda asked: not topic or topic in names_of(asked)
    )


@pytest.mark.parametrize(
    ("partitions", "sizes"),
    [
        ([10] * 450, [200, 200, 50]),
        ([500] * 6, [4, 2]),
        ([1, 5_000, 1], [1, 1, 1]),
        ([1_999, 1, 1], [2, 1]),
        ([7], [1]),
    ],
)
def test_a_request_has_a_bounded_number_of_topics_and_partitions(
    partitions: list[int], sizes: list[int]
) -> None:
    found = []
    while partitions:
        found.append(first_request(partitions))
        partitions = partitions[found[-1] :]
    assert found == sizes


def test_many_topics_are_created_with_a_few_requests(fakes: MirroredFakes) -> None:
    names = [f"t{number:04}" for number in range(2_000)]
    creation = creation_of(fakes, topics(names))
    assert creation.run() == dict.fromkeys(names)
    assert [len(request) for request in creation.requests] == [200] * 10
    assert fakes.target.topics.keys() >= set(names)


def test_each_topic_has_its_own_result(fakes: MirroredFakes) -> None:
    fakes.target.create_topic("there", 3, 1)
    fakes.target.create_policy = lambda topic, _: "no such names" if topic == "bad" else ""
    wanted = [
        *topics(["bad", "good", "secret", "there"]),
        *topics(["small"], settings={"segment.bytes": "7", "retention.ms": "5000"}),
        *topics(["odd"], settings={"segment.bytes": "7", "no.such.setting": "5000"}),
        *topics(["empty"], partitions=0),
    ]
    creation = creation_of(fakes, wanted)
    plant(fakes, Code(NOT_AUTHORIZED, "secret"), times=None)
    errors = creation.run()
    failed = {name: type(error) for name, error in errors.items() if error is not None}
    assert failed == {"bad": Refused, "secret": NotAuthorized, "empty": Refused}
    assert "no such names" in str(errors["bad"])
    assert "grant Create on topic secret or on the cluster" in str(errors["secret"])
    created = fakes.target.topics
    assert {"good", "there", "small", "odd"} <= created.keys()
    assert len(created["there"].partitions) == 3
    assert created["small"].own == {"segment.bytes": "1048576", "retention.ms": "5000"}
    assert created["odd"].own == {"segment.bytes": "1048576"}
    sentences = {name: len(result.adjustments) for name, result in creation.creations.results.items()}
    assert sentences == {**dict.fromkeys(errors, 0), "small": 1, "odd": 2}
    assert len(creation.requests) == 3, "all topics with adjusted settings are created together"


def test_a_lost_response_does_not_hide_which_topics_exist(fakes: MirroredFakes) -> None:
    plant(fakes, Drop(applied=True))
    creation = creation_of(fakes, topics(["a", "b", "c"]))
    assert creation.run() == dict.fromkeys("abc")
    assert fakes.target.topics.keys() >= set("abc")


def test_a_response_lost_after_settings_were_adjusted_does_not_hide_the_adjustment(
    fakes: MirroredFakes,
) -> None:
    fakes.target.faults.plant(CREATE_TOPICS, Drop(applied=True), fits=_has_bound)
    creation = creation_of(fakes, topics(["a"], settings={"segment.bytes": "7"}))
    assert creation.run() == {"a": None}
    (sentence,) = creation.creations.results["a"].adjustments
    assert "segment.bytes is 1048576 instead of 7" in sentence


def _has_bound(asked: HandledRequest) -> bool:
    return any(setting.value == "1048576" for topic in asked.message.topics for setting in topic.configs)


def test_a_topic_that_breaks_the_connection_prevents_no_other(fakes: MirroredFakes) -> None:
    names = [f"t{number:02}" for number in range(20)]
    creation = creation_of(fakes, topics(names))
    plant(fakes, Drop(), "t07", times=None)
    with pytest.raises(Unreachable):
        creation.run()
    assert creation.errors == dict.fromkeys(set(names) - {"t07"})
    assert creation.requests[-1] == ["t07"]


@pytest.mark.parametrize("error", [UNKNOWN_SERVER_ERROR, 42, 44])
def test_an_error_of_a_whole_request_is_that_of_the_topic_that_causes_it(
    fakes: MirroredFakes, error: int
) -> None:
    plant(fakes, Code(error), "t07", times=None)
    names = [f"t{number:02}" for number in range(20)]
    errors = creation_of(fakes, topics(names)).run()
    assert {name for name, found in errors.items() if found is not None} == {"t07"}
    assert errors.keys() == set(names)


def test_a_policy_that_forbids_every_topic_costs_no_more_than_single_requests(fakes: MirroredFakes) -> None:
    fakes.target.create_policy = lambda *_: "nothing at all"
    creation = creation_of(fakes, topics([f"t{number:03}" for number in range(200)]))
    assert all(isinstance(error, Refused) for error in creation.run().values())
    assert len(creation.requests) < 210


@pytest.mark.parametrize("error", [TIMED_OUT, THROTTLED])
def test_a_topic_that_the_controller_postpones_is_tried_again_alone(fakes: MirroredFakes, error: int) -> None:
    creation = creation_of(fakes, topics(["a", "b", "c"]))
    plant(fakes, Code(error, "b"), times=3)
    assert creation.run() == dict.fromkeys("abc")
    assert creation.requests == [["a", "b", "c"], ["b"], ["b"], ["b"]]


def test_a_topic_that_stays_throttled_takes_no_result_from_the_others(fakes: MirroredFakes) -> None:
    plant(fakes, Code(THROTTLED, "b"), times=None)
    creation = creation_of(fakes, topics(["a", "b", "c"]))
    with pytest.raises(Unreachable, match="THROTTLING_QUOTA_EXCEEDED"):
        creation.run()
    assert creation.errors == dict.fromkeys("ac")


def test_the_administrator_returns_what_is_known_after_its_deadline() -> None:
    with running(FakeCluster()) as cluster:
        cluster.faults.plant(CREATE_TOPICS, Code(THROTTLED, "b"), times=None)
        admin = KafkaAdmin(KafkaCluster(bootstrap_servers=cluster.address), deadline_seconds=0.3)
        found = admin.create_each(topics(["a", "b"]))
        assert found["a"].error is None
        error = found["b"].error
        assert error is not None
        assert error.retriable
        with pytest.raises(HeadraceError):
            admin.create_each(topics(["b"]))
        admin.close()


def extension(fakes: MirroredFakes, **wanted: int) -> Creation:
    return Creation(fakes, TopicExtensions(wanted))


def counts(fakes: MirroredFakes, *names: str) -> list[int]:
    return [len(fakes.target.topics[name].partitions) for name in names]


def test_many_topics_are_extended_with_a_few_requests(fakes: MirroredFakes) -> None:
    names = [f"t{number:03}" for number in range(450)]
    for name in names:
        fakes.target.create_topic(name, 30, 1)
    extensions = extension(fakes, **dict.fromkeys(names, 31))
    assert extensions.run() == dict.fromkeys(names)
    assert [len(request) for request in extensions.requests] == [200, 200, 50]
    assert counts(fakes, *names) == [31] * 450


def test_each_extended_topic_has_its_own_result(fakes: MirroredFakes) -> None:
    for name in ("good", "grown", "secret"):
        fakes.target.create_topic(name, 2, 1)
    extensions = extension(fakes, good=3, grown=2, missing=4, secret=5)
    fakes.target.faults.plant(CREATE_PARTITIONS, Code(NOT_AUTHORIZED, "secret"))
    errors = extensions.run()
    failed = {name: type(error) for name, error in errors.items() if error is not None}
    assert failed == {"missing": TopicMissing, "secret": NotAuthorized}
    assert "grant Alter on topic secret" in str(errors["secret"])
    assert errors.keys() == {"good", "grown", "missing", "secret"}
    assert counts(fakes, "good", "grown", "secret") == [3, 2, 2]
    assert extensions.requests == [["good", "missing", "secret"]]


def test_a_topic_whose_extension_the_controller_postpones_is_tried_again_alone(fakes: MirroredFakes) -> None:
    for name in ("a", "b"):
        fakes.target.create_topic(name, 1, 1)
    extensions = extension(fakes, a=2, b=3)
    fakes.target.faults.plant(CREATE_PARTITIONS, Code(THROTTLED, "a"), times=2)
    assert extensions.run() == dict.fromkeys("ab")
    assert extensions.requests == [["a", "b"], ["a"], ["a"]]
    assert counts(fakes, "a", "b") == [2, 3]


def test_a_lost_response_does_not_hide_which_topics_are_extended(fakes: MirroredFakes) -> None:
    for name in ("a", "b"):
        fakes.target.create_topic(name, 1, 1)
    fakes.target.faults.plant(CREATE_PARTITIONS, Drop(applied=True))
    assert extension(fakes, a=2, b=3).run() == dict.fromkeys("ab")
    assert counts(fakes, "a", "b") == [2, 3]


def failing_extension(fakes: MirroredFakes, fault: Fault) -> Creation:
    """Return the extension of ten topics, of which one makes its request fail."""
    names = [f"t{number:02}" for number in range(10)]
    for name in names:
        fakes.target.create_topic(name, 1, 1)
    extensions = extension(fakes, **dict.fromkeys(names, 2))
    fakes.target.faults.plant(
        CREATE_PARTITIONS, fault, times=None, fits=lambda asked: "t03" in names_of(asked)
    )
    return extensions


def check_all_but_one_extended(fakes: MirroredFakes, extensions: Creation) -> None:
    names = [f"t{number:02}" for number in range(10)]
    assert {name for name, error in extensions.errors.items() if error is None} == {*names} - {"t03"}
    assert counts(fakes, *names) == [1 if name == "t03" else 2 for name in names]


def test_a_topic_whose_request_fails_prevents_the_extension_of_no_other(fakes: MirroredFakes) -> None:
    extensions = failing_extension(fakes, Code(UNKNOWN_SERVER_ERROR))
    assert "UNKNOWN_SERVER_ERROR" in str(extensions.run()["t03"])
    check_all_but_one_extended(fakes, extensions)


def test_a_topic_whose_request_is_lost_prevents_the_extension_of_no_other(fakes: MirroredFakes) -> None:
    extensions = failing_extension(fakes, Drop())
    with pytest.raises(Unreachable):
        extensions.run()
    check_all_but_one_extended(fakes, extensions)


def test_topics_are_described_beside_one_whose_settings_are_unreadable() -> None:
    cluster = FakeCluster()
    for name in ("a", "b"):
        cluster.create_topic(name, 2, 1, retention_ms="5000")
    cluster.faults.plant(DESCRIBE_CONFIGS, Code(NOT_AUTHORIZED, "a"), times=None)
    with running(cluster):
        admin = KafkaAdmin(KafkaCluster(bootstrap_servers=cluster.address))
        found = admin.describe(["a", "b", "missing"])
        admin.close()
    assert found.keys() == {"a", "b"}
    assert (found["a"].partitions, found["a"].settings) == (2, {})
    assert isinstance(found["a"].settings_error, NotAuthorized)
    assert "grant DescribeConfigs on topic a" in str(found["a"].settings_error)
    assert (found["b"].settings, found["b"].settings_error) == ({"retention.ms": "5000"}, None)


def test_a_lane_starts_soon_after_its_topic_was_created_however_long_it_has_waited(
    fakes: MirroredFakes,
) -> None:
    fakes.source.create_topic("t", 1, 1)
    fakes.write("t", 0, 5)
    fakes.start("t")
    fakes.run(600.0)
    pauses = [event for event in fakes.events if isinstance(event, LanePaused)]
    assert {event.cause for event in pauses} == {PauseCause.NO_TOPIC}
    fakes.target.create_topic("t", 1, 1)
    fakes.run(6.0)
    assert fakes.numbers("t") == [0, 1, 2, 3, 4]
