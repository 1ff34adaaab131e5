"""Contract tests of topic administration: in memory, and of the adapter on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import uuid4

import pytest

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster
from mirror.errors import Refused, TopicMissing
from mirror.model.topics import SourcePosition, TopicDescription, TopicPartition
from mirror.ports import TopicAdmin
from tests.fakes.topic_admin import FakeTopicAdmin
from tests.patience import wait_until


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.servers)])
def admin(request: pytest.FixtureRequest) -> TopicAdmin:
    if request.param == "fake":
        return FakeTopicAdmin()
    address = request.getfixturevalue("source_kafka").address
    return KafkaAdmin(KafkaCluster(bootstrap_servers=address))


@pytest.fixture
def name() -> str:
    return f"admin-{uuid4().hex[:10]}"


def soon(condition: Callable[[], bool]) -> None:
    """Wait, since brokers learn of a change shortly after the response."""
    wait_until(condition)


def test_a_cluster_has_one_name_for_itself(admin: TopicAdmin) -> None:
    assert admin.cluster_id()
    assert admin.cluster_id() == admin.cluster_id()


def test_a_topic_that_was_created_is_listed_with_its_partitions(admin: TopicAdmin, name: str) -> None:
    admin.create(TopicDescription(name, 3))
    soon(lambda: admin.list_topics().get(name) == 3)


def test_its_own_settings_are_described_and_nobody_elses(admin: TopicAdmin, name: str) -> None:
    settings = {"retention.ms": "86400000", "cleanup.policy": "compact"}
    admin.create(TopicDescription(name, 2, settings=settings))
    soon(lambda: name in admin.list_topics())
    (found,) = admin.describe([name]).values()
    assert (found.name, found.partitions, dict(found.settings)) == (name, 2, settings)


def test_creating_again_changes_nothing(admin: TopicAdmin, name: str) -> None:
    admin.create(TopicDescription(name, 2, settings={"retention.ms": "1000"}))
    soon(lambda: name in admin.list_topics())
    admin.create(TopicDescription(name, 5, settings={"retention.ms": "2000"}))
    (found,) = admin.describe([name]).values()
    assert (found.partitions, found.settings["retention.ms"]) == (2, "1000")


def test_growing_raises_the_count_and_never_lowers_it(admin: TopicAdmin, name: str) -> None:
    admin.create(TopicDescription(name, 2))
    soon(lambda: name in admin.list_topics())
    assert admin.grow_each({name: 4})[name].error is None
    soon(lambda: admin.list_topics()[name] == 4)
    for count in (3, 4):
        assert admin.grow_each({name: count})[name].error is None
    assert admin.list_topics()[name] == 4


def test_each_topic_that_grows_has_its_own_result(admin: TopicAdmin, name: str) -> None:
    names = [f"{name}-{number}" for number in range(3)]
    for one in names:
        admin.create(TopicDescription(one, 2))
    soon(lambda: admin.list_topics().keys() >= set(names))
    missing = f"{name}-missing"
    results = admin.grow_each({names[0]: 3, missing: 4, names[1]: 5, names[2]: 1})
    assert {one: result.error for one, result in results.items() if one != missing} == dict.fromkeys(names)
    assert isinstance(results[missing].error, TopicMissing)
    soon(lambda: [admin.list_topics()[one] for one in names] == [3, 5, 2])


def test_topics_that_may_be_described_are_not_hidden_and_a_question_creates_none(
    admin: TopicAdmin, name: str
) -> None:
    admin.create(TopicDescription(name, 1))
    soon(lambda: name in admin.list_topics())
    missing = f"{name}-missing"
    assert admin.hidden([name, missing]) == frozenset()
    assert admin.hidden([]) == frozenset()
    assert missing not in admin.list_topics()


def test_what_is_not_there(admin: TopicAdmin, name: str) -> None:
    assert name not in admin.list_topics()
    assert admin.describe([name]) == {}
    assert admin.describe([]) == {}
    assert isinstance(admin.grow_each({name: 4})[name].error, TopicMissing)


def test_where_a_group_stands_that_has_committed_nothing_is_not_known(admin: TopicAdmin, name: str) -> None:
    admin.create(TopicDescription(name, 1))
    soon(lambda: name in admin.list_topics())
    there, gone = TopicPartition(name, 0), TopicPartition(f"{name}-gone", 0)
    soon(lambda: there in admin.positions(name, [there]))
    assert admin.positions(name, [there]) == {there: SourcePosition(None, 0, 0)}
    assert admin.positions(name, []) == {}
    assert gone not in _or_nothing(lambda: admin.positions(name, [there, gone]))


def _or_nothing(
    ask: Callable[[], Mapping[TopicPartition, SourcePosition]],
) -> Mapping[TopicPartition, SourcePosition]:
    """Return the positions, or none if the cluster rejects the request for a missing topic."""
    try:
        return ask()
    except TopicMissing:
        return {}


def test_an_impossible_topic_is_refused(admin: TopicAdmin, name: str) -> None:
    with pytest.raises(Refused):
        admin.create(TopicDescription(name, 0))
