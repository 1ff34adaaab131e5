"""Test the lease of the judging monitor, and the rebalances that it may request."""

from __future__ import annotations

import pytest

from mirror.coordination.monitors.state import LEASE_SECONDS, ActingState, Switch
from mirror.coordination.monitors.store import ActingStore
from mirror.coordination.stores.requests import RebalanceRequest, RequestQueue
from mirror.errors import IllegalTransition, Unreachable
from mirror.model.identifiers import DatastreamName, GroupName
from tests.fakes.clock import ManualClock
from tests.fakes.node_store import FakeZooKeeper, Fault, Operation

ORDERS = DatastreamName("orders")


class Rig:
    """Two instances that serve monitors."""

    def __init__(self) -> None:
        self.server, self.clock = FakeZooKeeper(), ManualClock()
        self.sessions = [self.server.session() for _ in range(2)]
        self.requests = RequestQueue(self.sessions[0])
        self.one, self.other = (
            ActingStore(session, RequestQueue(session), self.clock) for session in self.sessions
        )
        self.live = {4, 5}

    def hold(self, holder: str, store: ActingStore | None = None, instance: int | None = None) -> str:
        """Acquire or renew the lease and return its identity, or "" if another monitor holds it."""
        lease = (store or self.one).hold(holder, instance, lambda: self.live).lease
        assert lease is not None
        return lease.identity if lease.holder == holder else ""

    def act(self, lease: str, store: ActingStore | None = None) -> str:
        request = RebalanceRequest(GroupName("orders"), False, "monitor", "late", self.clock.now_ms())
        return (store or self.one).act(lease, ORDERS, request)


def test_a_monitor_that_says_so_in_time_stays_the_one_that_judges() -> None:
    rig = Rig()
    first = rig.hold("a")
    for _ in range(5):
        rig.clock.advance(LEASE_SECONDS - 1)
        assert rig.hold("b", rig.other) == ""
        assert rig.hold("a") == first
    assert rig.act(first)


def test_one_that_is_frozen_is_replaced_and_what_it_asks_for_later_is_refused() -> None:
    rig = Rig()
    first = rig.hold("a")
    assert rig.hold("b", rig.other) == ""
    rig.clock.advance(LEASE_SECONDS)
    with pytest.raises(IllegalTransition, match=rf"\blease\b.* {LEASE_SECONDS:g} s\b"):
        rig.act(first)
    second = rig.hold("b", rig.other)
    assert second not in ("", first)
    for store in (rig.one, rig.other):
        with pytest.raises(IllegalTransition, match="lease"):
            rig.act(first, store)
    assert rig.requests.waiting() == ()
    assert rig.act(second, rig.other)
    assert rig.hold("a") == ""


def test_a_lease_counts_from_when_it_was_seen_whatever_the_clocks_of_others_show() -> None:
    rig = Rig()
    rig.hold("a")
    rig.clock.advance(10 * LEASE_SECONDS)
    assert rig.hold("b", rig.other) == "", "this instance has only just seen the lease"
    rig.clock.advance(LEASE_SECONDS)
    assert rig.hold("b", rig.other)


def test_that_of_a_monitor_within_an_instance_ends_with_the_instance() -> None:
    rig = Rig()
    first = rig.hold("within 4", instance=4)
    assert rig.hold("within 5", rig.other, 5) == ""
    rig.live.remove(4)
    assert rig.hold("within 5", rig.other, 5) not in ("", first)


def test_a_monitor_that_ends_makes_room_at_once() -> None:
    rig = Rig()
    rig.hold("a")
    rig.other.release("nobody")
    assert rig.hold("b", rig.other) == ""
    rig.one.release("a")
    assert rig.hold("b", rig.other)


def test_a_person_switches_acting_off_for_all_of_them() -> None:
    rig = Rig()
    lease = rig.hold("a")
    rig.other.switch(Switch(False, "a migration", "alice", 5))
    with pytest.raises(IllegalTransition, match="switched off: a migration"):
        rig.act(lease)
    assert rig.hold("a") == lease, "the monitor keeps its lease"
    rig.other.switch(Switch(True, "", "alice", 6))
    assert rig.act(lease)


def test_there_is_one_rebalance_of_monitors_at_a_time() -> None:
    rig = Rig()
    lease = rig.hold("a")
    rig.act(lease)
    with pytest.raises(IllegalTransition, match="rebalance of orders"):
        rig.act(lease)
    (request,) = rig.requests.waiting()
    rig.requests.take(request)
    assert rig.act(lease)
    assert [one.datastream for one in rig.one.state().acts] == [ORDERS, ORDERS]


@pytest.mark.parametrize("name", ["create", "write", "change_together"])
def test_an_answer_that_is_lost_makes_no_second_monitor_and_no_second_rebalance(name: str) -> None:
    rig = Rig()
    lost = {name}

    def script(operation: Operation) -> Fault | None:
        if operation.name in lost and "/monitor" in (operation.path, *operation.paths):
            lost.clear()
            return Fault(after_effect=True)
        return None

    rig.sessions[0].script = script
    for _ in range(3):
        try:
            lease = rig.hold("a")
            rig.act(lease)
        except (Unreachable, IllegalTransition):
            continue
    assert not lost
    assert rig.hold("b", rig.other) == ""
    assert len(rig.requests.waiting()) == 1


def test_what_cannot_be_read_forbids_acting_until_a_person_allows_it() -> None:
    rig = Rig()
    rig.sessions[0].create("/monitor", b"{]")
    lease = rig.hold("a")
    with pytest.raises(IllegalTransition, match="cannot read"):
        rig.act(lease)
    rig.one.switch(Switch(changed_ms=1))
    assert rig.act(lease)


def test_nothing_stored_is_a_service_without_monitors() -> None:
    assert Rig().one.state() == ActingState()
