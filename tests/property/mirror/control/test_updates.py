"""Concurrent writers of one definition, in every order of ZooKeeper requests.

The change of a writer that succeeds is in the final definition; one that fails has changed nothing. A writer
that names a version succeeds only if there was no other write since.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from mirror.control.commands import ChangeGroup, ChangePauses, ChangeStatus, UpdateDatastream
from mirror.control.handlers import Control, ControlStores
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.requests import RequestQueue
from mirror.errors import StaleVersion, VersionConflict
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.datastreams.metadata import TASK_PREFIX
from mirror.model.identifiers import DatastreamName, GroupName
from tests.builders import DESTINATION, OPEN_CLUSTERS, SOURCE, a_datastream
from tests.fakes.clock import ManualClock
from tests.fakes.instances import gate_of
from tests.fakes.lockstep import Lockstep
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin

ORDERS, USERS = DatastreamName("orders"), DatastreamName("users")


@dataclass
class ConcurrentWriters:
    """A definition, and writers with separate sessions. `before`: version that all have read."""

    schedule: tuple[str, ...]
    server: FakeZooKeeper = field(default_factory=FakeZooKeeper)

    def __post_init__(self) -> None:
        self.store = DefinitionStore(self.server.session())
        self.store.create(a_datastream("orders", "t"))
        self.before = self.store.get(ORDERS)
        self.lockstep = Lockstep(self.schedule)

    def control(self, name: str) -> Control:
        session = self.server.session()
        gate = gate_of(session, {SOURCE: FakeTopicAdmin(t=1), DESTINATION: FakeTopicAdmin()}, ManualClock())
        stores = ControlStores(
            DefinitionStore(session), RequestQueue(session), Membership(session), EventLog(session)
        )
        session.script = self.lockstep.gate(name)
        return Control.build(stores, OPEN_CLUSTERS, ManualClock(1), gate)

    def update(self, name: str, *, is_exact: bool) -> Callable[[], object]:
        """Return an update of the version read by all: a metadata key with the writer's name."""
        control, before = self.control(name), self.before
        after = noted(before.datastream, name)
        return lambda: control.update(UpdateDatastream(before, after, is_exact))

    def read_and_update(self, name: str) -> Callable[[], object]:
        """Return an update of the current version, retried after conflicts."""
        control = self.control(name)

        def call() -> None:
            while True:
                before = control.stored(ORDERS)
                try:
                    control.update(UpdateDatastream(before, noted(before.datastream, name), True))
                except StaleVersion:
                    continue
                return

        return call

    def pause(self, name: str) -> Callable[[], object]:
        control = self.control(name)
        return lambda: control.change_status(ChangeStatus(ORDERS, "pause"))

    def pause_group(self, name: str) -> Callable[[], object]:
        control = self.control(name)
        return lambda: control.groups.change(ChangeGroup(GroupName(ORDERS), "pause", name))

    def exactly(self, name: str, action: str) -> Callable[[], object]:
        """Return an action on the status or the pauses, for exactly the version read by all."""
        control, before = self.control(name), self.before
        if action == "pause-partitions":
            pauses = ChangePauses(ORDERS, {"t": None}, True, name, before=before)
            return lambda: control.change_pauses(pauses)
        if action == "delete":
            return lambda: control.delete(ChangeStatus(ORDERS, "delete", before=before))
        return lambda: control.change_status(ChangeStatus(ORDERS, action, name, before=before))

    def run(self, functions: Mapping[str, Callable[[], object]]) -> set[str]:
        """Return the names of the successful writers; every other one got a conflict."""
        outcomes = self.lockstep.run(functions)
        for error in outcomes.values():
            assert error is None or isinstance(error, VersionConflict), error
        return {name for name, error in outcomes.items() if error is None}

    @property
    def written(self) -> set[str]:
        return set(self.store.get(ORDERS).datastream.metadata) & {"a", "b", "c"}


def noted(datastream: Datastream, name: str) -> Datastream:
    return replace(datastream, metadata={**datastream.metadata, name: "was here"})


@pytest.mark.parametrize("is_exact", [True, False])
def test_of_two_writers_of_one_version_one_wins(is_exact: bool) -> None:
    winners = set()
    for schedule in itertools.product("ab", repeat=5):
        office = ConcurrentWriters(schedule)
        answered = office.run({name: office.update(name, is_exact=is_exact) for name in "ab"})
        assert len(answered) == 1
        assert office.written == answered
        winners |= answered
    assert winners == {"a", "b"}


def test_writers_that_read_again_all_win_and_lose_nothing() -> None:
    random = Random(18)
    for _ in range(50):
        office = ConcurrentWriters(tuple(random.choices("abc", k=12)))
        assert office.run({name: office.read_and_update(name) for name in "abc"}) == {"a", "b", "c"}
        assert office.written == {"a", "b", "c"}
        assert office.store.get(ORDERS).version == office.before.version + 3


def test_a_pause_meanwhile_is_kept_and_stops_only_who_names_a_version() -> None:
    told = set()
    for schedule in itertools.product("ap", repeat=5):
        for is_exact in (True, False):
            office = ConcurrentWriters(schedule)
            answered = office.run({"a": office.update("a", is_exact=is_exact), "p": office.pause("p")})
            assert "p" in answered
            assert office.store.get(ORDERS).datastream.status is DatastreamStatus.PAUSED
            assert office.written == answered & {"a"}
            assert is_exact or "a" in answered
            told.add((is_exact, "a" in answered))
    assert told == {(True, True), (True, False), (False, True)}


@pytest.mark.parametrize("action", ["pause", "stop", "delete", "pause-partitions"])
def test_of_actions_and_changes_of_one_version_one_is_carried_out(action: str) -> None:
    winners = set()
    for schedule in itertools.product("abc", repeat=4):
        office = ConcurrentWriters(schedule)
        answered = office.run(
            {
                "a": office.update("a", is_exact=True),
                "b": office.exactly("b", action),
                "c": office.exactly("c", "pause"),
            }
        )
        assert len(answered) == 1
        after = office.store.get(ORDERS)
        assert after.version == office.before.version + 1, "there was another write"
        assert office.written == answered & {"a"}
        if action == "pause-partitions":
            assert set(after.datastream.pauses) == ({"t"} if answered == {"b"} else set())
        winners |= answered
    assert winners == {"a", "b", "c"}


def test_all_that_share_tasks_are_paused_as_one_beside_other_writers() -> None:
    told, random = set(), Random(18)
    for _ in range(50):
        office = ConcurrentWriters(tuple(random.choices("abc", k=14)))
        office.store.create(a_datastream(USERS, "u", metadata={TASK_PREFIX: ORDERS}))
        answered = office.run(
            {
                "a": office.pause_group("a"),
                "b": office.read_and_update("b"),
                "c": office.exactly("c", "pause-partitions"),
            }
        )
        assert answered >= {"a", "b"}
        orders, users = office.store.get(ORDERS), office.store.get(USERS)
        for one in (orders.datastream, users.datastream):
            assert one.halt is not None
            assert (one.status, one.halt.reason) == (DatastreamStatus.PAUSED, "a")
        assert users.version == 1, "a failed pause of the group has written"
        assert orders.version == len(answered)
        assert office.written == {"b"}
        assert set(orders.datastream.pauses) == ({"t"} if "c" in answered else set())
        told.add("c" in answered)
    assert told == {True, False}
