"""Two calls at two instances; the second is executed between any two requests of the first.

Each call is checked against the datastreams existing at that time; together they also satisfy both checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mirror.control.commands import CreateDatastream, UpdateDatastream
from mirror.control.handlers import Control, ControlStores
from mirror.control.owner_quotas import OwnerQuota
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.guard import BUCKETS
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.requests import RequestQueue
from mirror.errors import InvalidRequest, QuotaExceeded
from mirror.model.datastreams.datastream import Datastream
from tests.builders import DESTINATION, OPEN_CLUSTERS, SOURCE, a_datastream
from tests.fakes.clock import ManualClock
from tests.fakes.instances import gate_of
from tests.fakes.lockstep import Lockstep
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin

STEPS = 20
"""More than the requests of a call."""
QUOTAS = {"team": OwnerQuota(datastreams=2, bytes_per_second=100)}


class Instances:
    """One service with an instance for each caller.

    `a` starts; `b` runs to completion after `steps` requests.
    """

    def __init__(self, steps: int = 0) -> None:
        self.server = FakeZooKeeper()
        self.lockstep = Lockstep(("a",) * steps + ("b",) * STEPS + ("a",) * STEPS)
        self.stored = DefinitionStore(self.server.session())

    def control(self, name: str = "") -> Control:
        session, clock = self.server.session(), ManualClock()
        admin = FakeTopicAdmin(**dict.fromkeys("tuv", 1))
        gate = gate_of(session, {SOURCE: admin, DESTINATION: FakeTopicAdmin()}, clock)
        stores = ControlStores(
            DefinitionStore(session), RequestQueue(session), Membership(session), EventLog(session)
        )
        if name:
            session.script = self.lockstep.gate(name)
        return Control.build(stores, replace(OPEN_CLUSTERS, quotas=QUOTAS), clock, gate)

    def creation(self, name: str, datastream: Datastream) -> Callable[[], object]:
        control = self.control(name)
        return lambda: control.creations.create(CreateDatastream(datastream))

    def change(self, name: str, datastream: Datastream) -> Callable[[], object]:
        control = self.control(name)
        before = self.stored.get(datastream.name)
        return lambda: control.update(UpdateDatastream(before, datastream, is_exact=False))

    def run(self, a: Callable[[], object], b: Callable[[], object]) -> list[BaseException]:
        """Return the errors of both."""
        return [error for error in self.lockstep.run({"a": a, "b": b}).values() if error is not None]


def of(owner: str, name: str, topic: str, **metadata: str) -> Datastream:
    return a_datastream(name, topic, metadata={"owner": owner, **metadata})


@pytest.mark.parametrize("steps", range(STEPS))
def test_two_owners_never_share_a_new_group(steps: int) -> None:
    world = Instances(steps)
    shared = {"system.taskPrefix": "both"}
    errors = world.run(
        world.creation("a", of("one", "a", "t", **shared)), world.creation("b", of("two", "b", "u", **shared))
    )
    assert [type(error) for error in errors] == [InvalidRequest]
    assert len(world.stored.names()) == 1


@pytest.mark.parametrize("steps", range(STEPS))
def test_an_owner_never_exceeds_the_count(steps: int) -> None:
    world = Instances(steps)
    world.control().creations.create(
        CreateDatastream(of("team", "c", "v", **{"headrace.bytes-per-second": "10"}))
    )
    rate = {"headrace.bytes-per-second": "10"}
    errors = world.run(
        world.creation("a", of("team", "a", "t", **rate)), world.creation("b", of("team", "b", "u", **rate))
    )
    assert [type(error) for error in errors] == [QuotaExceeded]
    assert len(world.stored.names()) == 2


@pytest.mark.parametrize("steps", range(STEPS))
def test_an_owner_never_exceeds_the_rate(steps: int) -> None:
    world = Instances(steps)
    for name, topic in (("a", "t"), ("b", "u")):
        created = of("team", name, topic, **{"headrace.bytes-per-second": "40"})
        world.control().creations.create(CreateDatastream(created))
    stored = [one.datastream for one in world.stored.all().readable]
    more = [replace(one, metadata={**one.metadata, "headrace.bytes-per-second": "60"}) for one in stored]
    errors = world.run(world.change("a", more[0]), world.change("b", more[1]))
    assert [type(error) for error in errors] == [QuotaExceeded]


@pytest.mark.parametrize("steps", range(STEPS))
def test_a_mate_that_joins_keeps_what_it_shares(steps: int) -> None:
    world = Instances(steps)
    shared = {"system.taskPrefix": "both"}
    world.control().creations.create(CreateDatastream(of("one", "c", "v", **shared)))
    before = world.stored.get(of("one", "c", "v").name).datastream
    given_away = replace(before, metadata={**before.metadata, "owner": "two"})
    errors = world.run(world.creation("a", of("one", "a", "t", **shared)), world.change("b", given_away))
    assert [type(error) for error in errors] == [InvalidRequest]
    owners = {one.metadata["owner"] for one in world.stored.all().datastreams}
    assert len(owners) == 1


def test_changes_of_many_names_leave_few_nodes() -> None:
    world = Instances()
    guard = world.stored.guard(str(number) for number in range(20 * BUCKETS))
    assert len(guard.changes()) <= BUCKETS
