"""Concurrent creations with one name or key at several instances, in every order of requests.

One datastream is created, by one of the calls. A repeated call returns it; any other fails with a conflict.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from mirror.control.commands import CreateDatastream
from mirror.control.handlers import Control, ControlStores
from mirror.coordination.stores.definitions import DefinitionStore, StoredDatastream
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.requests import RequestQueue
from mirror.errors import AlreadyExists, KeyReused
from mirror.model.datastreams.creation import Creation
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName
from tests.builders import DESTINATION, OPEN_CLUSTERS, SOURCE, a_datastream
from tests.fakes.clock import ManualClock
from tests.fakes.instances import gate_of
from tests.fakes.lockstep import Lockstep
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin

WISHES = {
    "a": Creation("key", "wish"),
    "b": Creation("key", "wish"),
    "c": Creation("key", "another wish"),
    "d": Creation("another key", "wish"),
    "e": None,
}
STEPS = 14
"""More than the requests of a creation."""


def schedules(first: str, second: str) -> Iterator[tuple[str, ...]]:
    """Yield schedules: the first starts, the second runs some steps, the first runs to completion."""
    for before, between in itertools.product(range(STEPS), repeat=2):
        yield (first,) * before + (second,) * between + (first,) * STEPS


class Creators:
    """Creators, each at a separate instance with a different clock."""

    def __init__(self, schedule: tuple[str, ...]) -> None:
        self.server = FakeZooKeeper()
        self.lockstep = Lockstep(schedule)
        self.answers: dict[str, StoredDatastream] = {}

    def create(self, name: str, called: str = "orders") -> Callable[[], object]:
        control, asked = self.control(name), self.asked(name, called)

        def call() -> None:
            self.answers[name] = control.creations.create(CreateDatastream(asked))

        return call

    def remove(self, name: str) -> Callable[[], object]:
        """Remove a completed definition, like the leader."""
        session = self.server.session()
        session.script = self.lockstep.gate(name)
        return lambda: DefinitionStore(session).remove(DatastreamName("orders"))

    def at_once(self, name: str, called: str) -> None:
        """Make a call without concurrency. Raises its error."""
        self.control(name, is_gated=False).creations.create(CreateDatastream(self.asked(name, called)))

    @staticmethod
    def asked(name: str, called: str) -> Datastream:
        """Return a definition; another name selects another topic, to avoid a conflict."""
        return a_datastream(called, "t" if called == "orders" else called, creation=WISHES[name])

    def control(self, name: str, *, is_gated: bool = True) -> Control:
        session, clock = self.server.session(), ManualClock(ord(name))
        gate = gate_of(session, {SOURCE: FakeTopicAdmin(t=1), DESTINATION: FakeTopicAdmin()}, clock)
        stores = ControlStores(
            DefinitionStore(session), RequestQueue(session), Membership(session), EventLog(session)
        )
        if is_gated:
            session.script = self.lockstep.gate(name)
        return Control.build(stores, OPEN_CLUSTERS, clock, gate)

    def run(self, names: str) -> dict[str, BaseException | None]:
        return self.lockstep.run({name: self.create(name) for name in names})

    def stored(self) -> Datastream:
        return DefinitionStore(self.server.session()).get(DatastreamName("orders")).datastream


def test_the_same_call_twice_at_once_is_one_datastream_and_both_are_answered_alike() -> None:
    winners = set()
    for schedule in schedules("a", "b"):
        creators = Creators(schedule)
        assert creators.run("ab") == {"a": None, "b": None}
        assert creators.answers["a"] == creators.answers["b"]
        assert creators.answers["a"].datastream == creators.stored()
        winners.add(creators.stored().created_ms)
    assert winners == {ord("a"), ord("b")}


@pytest.mark.parametrize(("other", "refusal"), [("c", KeyReused), ("d", AlreadyExists), ("e", AlreadyExists)])
def test_of_two_calls_that_are_not_the_same_one_is_refused(other: str, refusal: type[AlreadyExists]) -> None:
    winners = set()
    for schedule in schedules("a", other):
        creators = Creators(schedule)
        outcomes = creators.run(f"a{other}")
        (winner,) = [name for name, error in outcomes.items() if error is None]
        (loser,) = {"a", other} - {winner}
        assert type(outcomes[loser]) is refusal
        assert creators.stored().creation == WISHES[winner]
        winners.add(winner)
    assert winners == {"a", other}


def test_one_key_given_to_two_names_at_once_makes_one_datastream() -> None:
    winners = set()
    for schedule in schedules("a", "c"):
        creators = Creators(schedule)
        outcomes = creators.lockstep.run({"a": creators.create("a"), "c": creators.create("c", "users")})
        (winner,) = [name for name, error in outcomes.items() if error is None]
        (loser,) = {"a", "c"} - {winner}
        assert type(outcomes[loser]) is KeyReused
        (stored,) = DefinitionStore(creators.server.session()).all().datastreams
        assert stored.creation == WISHES[winner]
        winners.add(winner)
    assert winners == {"a", "c"}


def test_a_key_is_free_once_its_datastream_is_gone_and_not_before() -> None:
    refused = set()
    for schedule in schedules("c", "remover"):
        creators = Creators(schedule)
        creators.at_once("a", "orders")
        removal = {"remover": creators.remove("remover")}
        outcomes = creators.lockstep.run({"c": creators.create("c", "users"), **removal})
        assert outcomes["remover"] is None
        stored = DefinitionStore(creators.server.session()).all().datastreams
        assert [one.name for one in stored] == ([] if outcomes["c"] else ["users"])
        assert outcomes["c"] is None or type(outcomes["c"]) is KeyReused
        refused.add(outcomes["c"] is not None)
        if stored:
            with pytest.raises(KeyReused):
                creators.at_once("b", "third")
        else:
            creators.at_once("b", "third")
    assert refused == {True, False}


def test_what_a_damaged_definition_left_behind_takes_no_key() -> None:
    creators = Creators(())
    creators.at_once("a", "orders")
    nodes = creators.server.session()
    nodes.write("/datastreams/orders", b"{", 0)
    with pytest.raises(KeyReused):
        creators.at_once("c", "users")
    DefinitionStore(nodes).remove(DatastreamName("orders"))
    creators.at_once("c", "users")
    assert nodes.read("/creations/key").data == b"users"
