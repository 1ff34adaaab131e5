"""Test the problems of datastreams stored in ZooKeeper."""

from __future__ import annotations

import pytest

from mirror.coordination.stores.problems import Problem, ProblemStore
from mirror.errors import InvalidRequest
from mirror.model.bounds import LONGEST_REASON
from mirror.model.identifiers import DatastreamName
from mirror.model.reasons import damage_of, legible, reason_of
from tests.fakes.node_store import FakeZooKeeper, Operation

ORDERS, USERS = DatastreamName("orders"), DatastreamName("users")


def test_problems_are_stored_by_datastream_until_they_are_removed() -> None:
    store = ProblemStore(FakeZooKeeper().session())
    assert store.all() == {}
    assert store.get(ORDERS) is None
    store.put(ORDERS, Problem("it hurts", 5))
    store.put(USERS, Problem("it burns", 6))
    store.put(ORDERS, Problem("it hurts more", 5))
    assert store.all() == {ORDERS: Problem("it hurts more", 5), USERS: Problem("it burns", 6)}
    store.remove(ORDERS)
    store.remove(ORDERS)
    assert store.all() == {USERS: Problem("it burns", 6)}


def test_what_is_stored_already_is_not_written_again() -> None:
    session = FakeZooKeeper().session()
    store = ProblemStore(session)
    store.put(ORDERS, Problem("it hurts", 5))
    begin = len(session.log)
    store.put(ORDERS, Problem("it hurts", 5))
    assert not any(one.is_write for one in session.log[begin:])


def test_a_reason_is_cut_and_can_be_sent_whatever_it_holds() -> None:
    store = ProblemStore(FakeZooKeeper().session())
    store.put(ORDERS, Problem("\udfff" + "x" * 5_000, 5))
    found = store.get(ORDERS)
    assert found is not None
    assert len(found.reason) == LONGEST_REASON
    found.reason.encode()


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"reason": 1, "since_ms": "x"}', b'"' * 3])
def test_a_damaged_problem_is_a_problem(data: bytes) -> None:
    session = FakeZooKeeper().session()
    session.create("/problems/orders", data)
    store = ProblemStore(session)
    found = store.get(ORDERS)
    assert found is not None
    assert found.since_ms == 0
    store.put(ORDERS, Problem("now I know", 7))
    assert store.get(ORDERS) == Problem("now I know", 7)


def test_one_that_disappears_while_all_are_read_is_none() -> None:
    server = FakeZooKeeper()
    session, other = server.session(), ProblemStore(server.session())
    other.put(ORDERS, Problem("it hurts", 5))

    def script(operation: Operation) -> None:
        if operation.name == "read":
            other.remove(ORDERS)

    session.script = script
    assert ProblemStore(session).all() == {}


def test_a_reason_is_the_message_and_for_the_unexpected_its_class_too() -> None:
    assert reason_of(InvalidRequest("bad", advice="be good")) == "bad: be good"
    assert reason_of(KeyError("topics")) == "unexpected KeyError: 'topics'"
    assert legible("abc", 2) == "a…"


def test_what_is_wrong_with_a_stored_document_is_said_without_the_words_of_the_code() -> None:
    assert damage_of(InvalidRequest("bad", advice="be good")) == "bad: be good"
    assert "'topics'" in damage_of(KeyError("topics"))
    assert damage_of(ValueError("no number")).endswith(": ValueError: no number")


def test_of_many_problems_only_those_are_read_again_that_have_changed() -> None:
    server = FakeZooKeeper()
    session, leader = server.session(), ProblemStore(server.session())
    reader = ProblemStore(session)
    for number in range(100):
        leader.put(DatastreamName(f"d-{number:02}"), Problem("it hurts", number))
    assert len(reader.all()) == 100
    leader.put(DatastreamName("d-07"), Problem("it hurts more", 7))
    leader.remove(DatastreamName("d-08"))
    leader.put(DatastreamName("new"), Problem("new", 1))
    session.log.clear()
    assert reader.all() == leader.all()
    assert [one.path for one in session.log] == ["/problems", "/problems/d-07", "/problems/new"]
