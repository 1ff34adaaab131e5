"""Limits on the actions of two monitors of one service, over any history."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from mirror.coordination.monitors.state import LEASE_SECONDS, Switch
from mirror.coordination.monitors.store import ActingStore
from mirror.coordination.stores.requests import RebalanceRequest, RequestQueue
from mirror.errors import HeadraceError
from mirror.model.capacity.freeze import read_freeze
from mirror.model.datastreams.objectives import Mode
from mirror.model.identifiers import DatastreamName, GroupName
from monitor.actions import DAY_MS, ActingPolicy
from monitor.adapters.leases import lease_of, record_of
from monitor.causes.evidence import Evidence
from monitor.latency import ObjectiveSubject
from monitor.movement.summary import NOTHING_KNOWN, FleetMovement
from monitor.ports import LeaseHold, Preview
from monitor.rebalances import Rebalancing
from tests.fakes.clock import ManualClock
from tests.fakes.node_store import FakeZooKeeper

FREEZE: Final = "22:00 to 06:00"
POLICY: Final = ActingPolicy(most_a_day=4, most_a_day_of_each=2, freezes=(read_freeze(FREEZE),))
NAMES: Final = [DatastreamName(one) for one in ("a", "b", "c")]


class Step(NamedTuple):
    seconds: int
    who: int
    what: str
    name: DatastreamName
    observes: bool


steps = st.builds(
    Step,
    st.sampled_from([0, 1, int(LEASE_SECONDS), 900, 3_600, 6 * 3_600]),
    st.integers(0, 1),
    st.sampled_from(["hold", "help", "help", "help", "restart", "plan", "plan", "off", "on"]),
    st.sampled_from(NAMES),
    st.booleans(),
)
_NUMBERS: Final = count()


class ActRequest(NamedTuple):
    name: DatastreamName
    time_ms: int
    waiting: int
    is_on: bool
    mode: Mode
    who: int


class Site:
    """A service, without the leader that answers requests."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.session = FakeZooKeeper().session()
        self.requests = RequestQueue(self.session)
        self.store = ActingStore(self.session, self.requests, self.clock)
        self.asked: list[ActRequest] = []


class Monitor:
    """One incarnation of a monitor. Satisfies `monitor.ports.Service`."""

    def __init__(self, site: Site, number: int) -> None:
        self.site, self.number = site, number
        self.holder, self.lease, self.mode = f"{number}-{next(_NUMBERS)}", "", Mode.ACT
        self.rebalancing = Rebalancing(self, POLICY, site.clock)

    def run_once(self) -> bool:
        held = self.hold()
        self.rebalancing.note(held.record)
        return not held.other

    def hold(self) -> LeaseHold:
        state = self.site.store.hold(self.holder, None, set)
        self.lease, other = lease_of(state, self.holder)
        return LeaseHold(other, record_of(state, self.site.store.waiting(state)))

    def release(self) -> None:
        raise AssertionError

    def movements(self) -> FleetMovement:
        return NOTHING_KNOWN

    def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
        raise AssertionError

    def has_own_monitor(self) -> bool:
        raise AssertionError

    def evidence(self, subject: ObjectiveSubject) -> Evidence:
        return Evidence(())

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        return Preview("1 partition moves", 1)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        site, now_ms = self.site, self.site.clock.now_ms()
        waiting, is_on = len(site.requests.waiting()), site.store.state().switch.is_on
        request = RebalanceRequest(GroupName(name), False, "monitor", reason, now_ms)
        identity = site.store.act(self.lease, name, request)
        site.asked.append(ActRequest(name, now_ms, waiting, is_on, self.mode, self.number))
        return identity

    def help(self, name: DatastreamName, mode: Mode) -> None:
        self.mode = mode
        try:
            self.rebalancing.help(name, mode, "a breach", 0.0)
        except HeadraceError:
            assert self.lease != "", "a monitor that never held the lease made a request"


def play(history: list[Step]) -> Site:
    site = Site()
    monitors = [Monitor(site, number) for number in range(2)]
    for step in history:
        site.clock.advance(step.seconds)
        monitor = monitors[step.who]
        match step.what:
            case "hold":
                monitor.run_once()
            case "help":  # even if it has not renewed its lease for hours
                if monitor.lease or monitor.run_once():
                    monitor.help(step.name, Mode.OBSERVE if step.observes else Mode.ACT)
            case "restart":
                monitors[step.who] = Monitor(site, step.who)
            case "plan":
                for request in site.requests.waiting():
                    site.requests.take(request)
            case switch:
                site.store.switch(Switch(switch == "on", "a person", "me", 1))
    return site


@given(st.lists(steps, max_size=60))
def test_no_limit_is_ever_passed(history: list[Step]) -> None:
    asked = play(history).asked
    for one in asked:
        day = [each for each in asked if 0 <= one.time_ms - each.time_ms < DAY_MS]
        assert len(day) <= POLICY.most_a_day
        assert len([each for each in day if each.name == one.name]) <= POLICY.most_a_day_of_each
        assert not any(window.contains(one.time_ms) for window in POLICY.freezes)
        assert one.mode is Mode.ACT
        assert one.waiting == 0, "two requests at once"
        assert one.is_on


def test_such_histories_act_at_all() -> None:
    def step(what: str, who: int = 0, seconds: int = 0) -> Step:
        return Step(seconds, who, what, NAMES[0], False)

    noon = step("plan", seconds=14 * 3_600)  # the clock starts at 22:13
    site = play([noon, step("hold"), step("help"), step("plan"), step("help", 1, 40), step("plan")])
    assert [one.who for one in site.asked] == [0, 1]
    frozen = play([noon, step("hold"), step("hold", 1, 31), step("hold", 1), step("help"), step("help", 1)])
    assert [one.who for one in frozen.asked] == [1]


def test_a_reader_of_any_document_is_never_wrong_about_the_type() -> None:
    documents: list[Any] = [b"", b"{}", b"[]", b'{"switch": 1, "lease": 2, "acts": 3}']
    for data in documents:
        site = Site()
        site.session.create("/monitor", data)
        assert not site.store.state().switch.is_on
        site.store.switch(Switch(changed_ms=1))
        assert site.store.state().switch.is_on
