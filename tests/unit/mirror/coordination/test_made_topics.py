"""Test the stored cluster ids and the stored lists of created topics."""

from __future__ import annotations

import pytest

from mirror.coordination.datastream_records.made_topics import MadeTopics
from mirror.coordination.stores.cluster_ids import ClusterIds
from mirror.errors import CorruptData
from mirror.model.identifiers import ClusterRef, GroupName
from tests.fakes.node_store import FakeZooKeeper

GROUP, A, B = GroupName("orders"), ClusterRef("a"), ClusterRef("b")


def test_made_topics_are_kept_by_group_and_cluster() -> None:
    server = FakeZooKeeper()
    made, other = MadeTopics(server.session()), MadeTopics(server.session())
    assert made.of(GROUP) is None
    made.add(GROUP, A, [])
    assert other.of(GROUP) == {A: frozenset()}
    other.add(GROUP, A, ["t"])
    made.add(GROUP, A, ["u"])
    made.add(GROUP, B, ["t"])
    assert other.of(GROUP) == {A: frozenset({"t", "u"}), B: frozenset({"t"})}
    assert other.of(GroupName("others")) is None


def test_a_damaged_record_is_said() -> None:
    session = FakeZooKeeper().session()
    session.create("/made/orders", b"?")
    with pytest.raises(CorruptData, match="/made/orders"):
        MadeTopics(session).of(GROUP)


@pytest.mark.parametrize("name", ["a", "host:9092,other:9092", "x" * 100_000, "\udfff", "a/b"])
def test_what_a_cluster_calls_itself_is_kept_whatever_it_is_called_here(name: str) -> None:
    server = FakeZooKeeper()
    ids, other = ClusterIds(server.session()), ClusterIds(server.session())
    assert ids.get(ClusterRef(name)) is None
    ids.put(ClusterRef(name), "one")
    ids.put(ClusterRef(name), "two")
    assert other.get(ClusterRef(name)) == "two"
    MadeTopics(server.session()).add(GroupName(name), A, ["t"])
    assert MadeTopics(server.session()).of(GroupName(name)) == {A: frozenset({"t"})}
