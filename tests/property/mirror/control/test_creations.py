"""Creators of one name at several instances, side by side, one request to ZooKeeper at a time in every order.

There is one datastream, which is one creator's. Who sent the same call is answered with it, anybody else is
told that there is one.
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
from tests.builders import DESTINATION, SOURCE, a_datastream
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
"""More than a creation takes."""


def schedules(first: str, second: str) -> Iterator[tuple[str, ...]]:
    """The first begins, the second does some steps in between, the first goes on to its end."""
    for before, between in itertools.product(range(STEPS), repeat=2):
        yield (first,) * before + (second,) * between + (first,) * STEPS


class Creators:
    """Each at an instance of its own, whose clock says another time."""

    def __init__(self, schedule: tuple[str, ...]) -> None:
        self.server = FakeZooKeeper()
        self.lockstep = Lockstep(schedule)
        self.answers: dict[str, StoredDatastream] = {}

    def create(self, name: str) -> Callable[[], object]:
        control, asked = self.control(name), a_datastream("orders", "t", creation=WISHES[name])

        def call() -> None:
            self.answers[name] = control.create(CreateDatastream(asked))

        return call

    def control(self, name: str) -> Control:
        session, clock = self.server.session(), ManualClock(ord(name))
        gate = gate_of(session, {SOURCE: FakeTopicAdmin(t=1), DESTINATION: FakeTopicAdmin()}, clock)
        stores = ControlStores(
            DefinitionStore(session), RequestQueue(session), Membership(session), EventLog(session)
        )
        session.script = self.lockstep.gate(name)
        return Control(stores, frozenset({SOURCE, DESTINATION}), clock, gate)

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
