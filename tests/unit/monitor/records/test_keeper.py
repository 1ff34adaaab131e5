"""Test incidents across restarts of the monitor, and while their topic is unavailable."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mirror.errors import Fenced, Unreachable
from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner
from mirror.model.identifiers import DatastreamName
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.topics import TopicSelection
from monitor.actions import ActionRecord
from monitor.alerts.alert import AlertNotice, Style
from monitor.alerts.alert_metrics import AlertMetrics
from monitor.alerts.catalogue import AlertPatience
from monitor.alerts.conditions import Conditions
from monitor.alerts.deliveries.delivery import Delivery
from monitor.alerts.deliveries.outbox import Outbox, Schedule
from monitor.alerts.dispatch import AlertDispatch
from monitor.alerts.stored_alerts import InheritedAlerts, matters_of, read_alerts
from monitor.burn.pieces import TimeRangePiece
from monitor.causes.evidence import Evidence, LaneEvidence
from monitor.cycle import LoopEnd, MonitorCycle, MonitorLoop
from monitor.evaluation import Evaluation
from monitor.incidents import IncidentPolicy
from monitor.latency import LatencyObservation, ObjectiveSubject, Observations, Source
from monitor.movement.summary import NOTHING_KNOWN, FleetMovement
from monitor.objectives.late_times import LateTopics
from monitor.objectives.past import TopicLatencySums
from monitor.ports import LeaseHold, Preview
from monitor.records.deliveries import DeliveryCounts
from monitor.records.keeper import IncidentKeeper
from monitor.records.record import (
    DeliveryCost,
    IncidentRecord,
    Phase,
    StoredMonitorState,
    record_from_json,
    record_to_json,
)
from monitor.records.tracker import resumed
from tests.fakes.clock import ManualClock
from tests.patience import PATIENCE_SECONDS, wait_until

ORDERS: Final = DatastreamName("orders")
SOURCE: Final = Source("orders", "east")
UNKNOWN: Final = LatencyObservation(0, (0,) * LATENCY_BUCKETS, 0, unaged=1)
GOOD: Final = LatencyObservation(0, (0,) * LATENCY_BUCKETS, 0)
BAD: Final = LatencyObservation(0, (0,) * LATENCY_BUCKETS, 99_999)


class Topic:
    """The stored values, as bytes. `is_away`: the topic does not respond."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.notes: dict[str, bytes] = {}
        self.note_writes = 0
        self.is_away = threading.Event()
        self.owners = 0
        self.calls = 0

    def load(self) -> StoredMonitorState:
        self.answer()
        return StoredMonitorState(self.stored(), dict(self.notes))

    def reclaim(self) -> None:
        raise AssertionError("never fenced")

    def write(self, records: Sequence[IncidentRecord], notes: Mapping[str, bytes | None]) -> None:
        self.answer()
        self.values |= {one.id: record_to_json(one) for one in records}
        found = {**self.notes, **notes}
        self.notes = {key: one for key, one in found.items() if one is not None}
        self.note_writes += bool(notes)

    def answer(self) -> None:
        self.calls += 1
        if self.is_away.is_set():
            raise Unreachable("the topic's cluster is away")

    def stored(self) -> list[IncidentRecord]:
        return [record_from_json(one) for one in list(self.values.values())]


class Opened:
    """The topic as opened by one monitor, until another monitor loads it."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.owner = 0

    def load(self) -> StoredMonitorState:
        self.topic.owners += 1
        self.owner = self.topic.owners
        return self.topic.load()

    def reclaim(self) -> None:
        self.topic.owners += 1
        self.owner = self.topic.owners

    def write(self, records: Sequence[IncidentRecord], notes: Mapping[str, bytes | None]) -> None:
        if self.owner != self.topic.owners:
            raise Fenced("another one has taken it")
        self.topic.write(records, notes)


class Site:
    """A service with one datastream, and a receiver of alerts that outlives every monitor."""

    remark = ""

    def __init__(self) -> None:
        self.topic, self.clock, self.seen = Topic(), ManualClock(), GOOD
        self.notices: list[AlertNotice] = []
        self.asked = 0
        self.halted = ""

    def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
        return {ORDERS: ObjectiveSubject(LatencyObjective(1000), SOURCE, TopicSelection("t"), self.halted)}

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics | None:
        return None

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        return {SOURCE: {"t": self.seen}}

    def past(
        self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        return TopicLatencySums([(*SOURCE, "t")], [40], {key: [2.5] for key in milliseconds}, {})

    def movements(self) -> FleetMovement:
        return NOTHING_KNOWN

    def has_own_monitor(self) -> bool:
        return False

    def hold(self) -> LeaseHold:
        return LeaseHold("", ActionRecord())

    def release(self) -> None:
        """Do nothing: no other monitor waits for the lease."""

    def evidence(self, subject: ObjectiveSubject) -> Evidence:
        hold = QuotaHold(QuotaOwner.TASK, 0.5)
        return Evidence(tuple(LaneEvidence(f"t-{one}", task="a", lag_ms=9_000, hold=hold) for one in (0, 1)))

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        return Preview("2 partitions move", 2)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        self.asked += 1
        return f"r-{self.asked}"

    def send(self, notices: Sequence[AlertNotice], now_ms: int) -> None:
        self.notices += notices


class Monitor:
    """One lifetime of a monitor, whose evaluations the test runs."""

    def __init__(self, site: Site) -> None:
        self.site = site
        policy = IncidentPolicy(open_after=2, close_after=2, cooldown_seconds=60.0)
        self.cycle = MonitorCycle(site, site, policy, site.clock, 60.0)
        metrics = AlertMetrics()
        delivery = Delivery("r", site, Outbox(Schedule(0.0, 3600.0)), site.clock, metrics)
        conditions, style = Conditions(AlertPatience()), Style({}, "", "http://here")
        self.alerts = AlertDispatch(conditions, style, list, [delivery], site.clock, metrics)
        told = InheritedAlerts()
        self.keeper = IncidentKeeper(
            Opened(site.topic),
            site.clock,
            self.restore,
            lambda: told.records(self.alerts.firing, self.alerts.accepted),
            lambda: matters_of(self.alerts.firing),
            DeliveryCounts(site, site.clock, 14),
        )

    def restore(self, stored: StoredMonitorState) -> None:
        clock = self.site.clock
        self.cycle.restore(
            {
                DatastreamName(one.datastream): resumed(one, clock.now_ms(), clock.monotonic())
                for one in stored.records
                if one.is_open and one.is_late
            }
        )
        self.alerts.resume(read_alerts(stored.notes.values()))

    def __enter__(self) -> Monitor:
        self.alerts.start()
        self.keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.keeper.stop(PATIENCE_SECONDS)
        self.alerts.stop(PATIENCE_SECONDS)

    def evaluate(self, seen: LatencyObservation) -> Evaluation:
        self.site.clock.advance(10.0)
        self.site.seen = seen
        findings = self.cycle.evaluate()
        for listener in (self.alerts, self.keeper):
            listener.judged(findings, NOTHING_KNOWN)
        return findings[ORDERS]


def phases(record: IncidentRecord) -> list[Phase]:
    return [one.phase for one in record.timeline]


def test_an_incident_is_one_object_from_its_beginning_to_its_end() -> None:
    site = Site()
    with Monitor(site) as monitor:
        wait_until(lambda: site.topic.calls)
        for seen in (BAD, BAD, GOOD, BAD, GOOD, GOOD):
            monitor.evaluate(seen)
        wait_until(lambda: [one for one in site.topic.stored() if not one.is_open])
    (record,) = site.topic.stored()
    begun = [Phase.DETECTED, Phase.CLASSIFIED, Phase.ACTED]
    assert phases(record) == [*begun, Phase.RELAPSED, Phase.RECOVERED, Phase.CLOSED]
    assert [one.times for one in record.timeline] == [1, 1, 1, 1, 2, 1]
    assert (record.datastream, record.cluster) == ("orders", "east")
    assert "2 min" in record.timeline[0].text
    assert re.search(r"\br-1\b.*\b2 partitions\b", record.timeline[2].text)


def test_what_an_incident_cost_in_records_is_counted_after_its_end_by_whichever_monitor_runs_then() -> None:
    site = Site()
    with Monitor(site) as monitor:
        wait_until(lambda: site.topic.calls)
        for seen in (BAD, BAD, GOOD, GOOD):
            monitor.evaluate(seen)
        wait_until(lambda: [one for one in site.topic.stored() if not one.is_open])
    (over,) = site.topic.stored()
    assert over.deliveries is None, "the measurements are incomplete"
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(GOOD) and site.topic.stored()[0].deliveries)
    (record,) = site.topic.stored()
    assert record == replace(over, deliveries=(DeliveryCost("p99 within 1 s", 40, 2.5),))


def test_an_incident_goes_on_after_a_restart_and_its_alert_ends() -> None:
    site = Site()
    with Monitor(site) as monitor:
        for _ in range(2):
            monitor.evaluate(BAD)
        wait_until(lambda: site.notices)
        wait_until(lambda: monitor.evaluate(BAD) and site.topic.values)
    (before,) = site.topic.stored()
    asked = site.asked
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(GOOD).incident.is_open)
        assert site.asked == asked, "the cooldown continues"
        while monitor.evaluate(GOOD).incident.is_open:
            pass
        wait_until(lambda: not site.notices[-1].is_firing)
        wait_until(lambda: not site.topic.stored()[0].is_open)
    (record,) = site.topic.stored()
    assert record.id == before.id
    assert phases(record)[-1] is Phase.CLOSED
    assert {one.starts_ms for one in site.notices} == {before.opened_ms}
    assert len({one.key for one in site.notices}) == 1


def test_an_incident_is_not_over_because_the_next_monitor_sees_something_else_first() -> None:
    site = Site()
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(BAD) and site.topic.values)
        wait_until(lambda: site.notices)
    (late,) = site.notices
    site.topic.is_away.set()
    site.halted = "the destination refuses a record"
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(GOOD) and len({one.key for one in site.notices}) == 2)
        site.topic.is_away.clear()
        wait_until(lambda: monitor.evaluate(GOOD).incident.is_open)
        for _ in range(3):
            monitor.evaluate(GOOD)
        assert late.starts_ms in [one.since_ms for one in monitor.alerts.firing]
    assert [one for one in site.notices if one.key == late.key] == [late]
    (record,) = site.topic.stored()
    assert (record.is_open, record.is_late, record.matters) == (True, True, ("HeadraceDatastreamHalted",))


def test_the_judging_goes_on_while_the_topic_is_away_and_nothing_is_lost() -> None:
    site = Site()
    site.topic.is_away.set()
    with Monitor(site) as monitor:
        for _ in range(3):
            monitor.evaluate(BAD)
        wait_until(lambda: site.notices)
        wait_until(lambda: site.topic.calls)
        assert site.topic.values == {}
        site.topic.is_away.clear()
        wait_until(lambda: monitor.evaluate(BAD) and site.topic.values)
    (record,) = site.topic.stored()
    assert phases(record)[:3] == [Phase.DETECTED, Phase.CLASSIFIED, Phase.ACTED]


def test_nothing_is_written_before_the_former_incidents_are_known() -> None:
    site = Site()
    former = IncidentRecord("orders-1", ORDERS, "east", 1).noted(1, Phase.DETECTED, "late")
    site.topic.values = {former.id: record_to_json(former)}
    site.topic.is_away.set()
    with Monitor(site) as monitor:
        for _ in range(3):
            monitor.evaluate(BAD)
        site.topic.is_away.clear()
        wait_until(lambda: monitor.evaluate(BAD) and len(site.topic.stored()[0].timeline) > 1)
    (record,) = site.topic.stored()
    assert record.id == former.id
    assert phases(record)[:4] == [Phase.DETECTED, Phase.RELAPSED, Phase.CLASSIFIED, Phase.ACTED]


def test_a_halt_that_is_over_while_no_monitor_runs_is_told_to_be_over() -> None:
    site = Site()
    site.halted = "the destination refuses a record"
    with Monitor(site) as monitor:
        for _ in range(5):
            monitor.evaluate(GOOD)
        wait_until(lambda: site.notices)
        wait_until(lambda: monitor.evaluate(GOOD) and has_taken(site))
        writes = site.topic.note_writes
        for _ in range(3):
            monitor.evaluate(GOOD)
        assert site.topic.note_writes == writes, "nothing changed"
    assert site.topic.notes.keys() == {"alerts/orders"}
    (fired,) = site.notices
    site.halted = ""
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(GOOD) and not site.notices[-1].is_firing)
        wait_until(lambda: not site.topic.notes)
    (_, over) = site.notices
    assert (over.key, over.starts_ms) == (fired.key, fired.starts_ms)
    assert "orders" in over.annotations["summary"]


def test_a_halt_that_lasts_through_a_restart_keeps_its_beginning() -> None:
    site = Site()
    site.halted = "the destination refuses a record"
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(GOOD) and has_taken(site))
    ((before, _),) = read_alerts(site.topic.notes.values())
    (fired,) = site.notices
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(GOOD) and monitor.alerts.firing)
        for _ in range(5):
            monitor.evaluate(GOOD)
        assert monitor.alerts.firing[0].since_ms == before.since_ms == fired.starts_ms
        assert site.notices == [fired], "the receiver has it already"
        site.halted = ""
        wait_until(lambda: monitor.evaluate(GOOD) and len(site.notices) > 1)
    (_, over) = site.notices
    assert (over.key, over.starts_ms, over.is_firing) == (fired.key, fired.starts_ms, False)


def has_taken(site: Site) -> bool:
    """Return whether the next monitor will know that the receiver has an alert."""
    return any(one.receivers == {"r"} for one in read_alerts(site.topic.notes.values()))


def test_an_alert_that_nobody_has_taken_is_sent_by_the_next_monitor_with_its_beginning() -> None:
    site = Site()
    site.halted = "the destination refuses a record"
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(GOOD) and has_taken(site))
    document = json.loads(site.topic.notes["alerts/orders"])
    del document["alerts"][0]["told"]
    site.topic.notes["alerts/orders"] = json.dumps(document).encode()
    (fired,) = site.notices
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(GOOD) and len(site.notices) > 1)
    assert {(one.key, one.starts_ms, one.is_firing) for one in site.notices} == {
        (fired.key, fired.starts_ms, True)
    }


def test_what_nobody_can_judge_after_a_restart_is_neither_sent_again_nor_over() -> None:
    site = Site()
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(BAD) and has_taken(site))
    (fired,) = site.notices
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(UNKNOWN).incident.is_open)
        for _ in range(30):
            monitor.evaluate(UNKNOWN)
        assert fired.starts_ms in [one.since_ms for one in monitor.alerts.firing]
        assert site.notices == [fired]


def test_what_is_no_alert_of_this_version_is_left_out() -> None:
    known = {"name": "HeadraceDatastreamHalted", "since_ms": 5, "summary": "s"}
    known |= {"datastream": "orders", "cluster": "east", "receiver": ""}
    values = [b"nothing", b"{}", json.dumps({"alerts": [known | {"name": "OfALaterVersion"}]}).encode()]
    assert read_alerts(values) == []
    mixed = [known | {"name": "OfALaterVersion"}, known, {"name": None}, 7]
    ((found, receivers),) = read_alerts([*values, json.dumps({"alerts": mixed}).encode()])
    assert receivers == frozenset()
    assert (found.kind.name, found.datastream, found.since_ms) == ("HeadraceDatastreamHalted", "orders", 5)


def test_a_monitor_that_another_one_has_taken_over_from_writes_nothing() -> None:
    site = Site()
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(BAD) and site.topic.values)
        site.topic.is_away.set()
        while monitor.evaluate(GOOD).incident.is_open:
            pass
        monitor.keeper.oust()
        site.topic.is_away.clear()
    (record,) = site.topic.stored()
    assert record.is_open, "only the other monitor may close it"


def test_a_monitor_that_only_the_broker_has_fenced_writes_again() -> None:
    """It ends a transaction that an outage has interrupted. The lease shows that no other monitor runs."""
    site = Site()
    with Monitor(site) as monitor:
        wait_until(lambda: monitor.evaluate(BAD) and site.topic.values)
        site.topic.owners += 1
        wait_until(lambda: monitor.evaluate(GOOD) and monitor.keeper.is_shut_out)
        monitor.keeper.reclaim()
        assert not monitor.keeper.is_shut_out
        wait_until(lambda: monitor.evaluate(GOOD) and not site.topic.stored()[0].is_open)


def test_a_monitor_that_was_frozen_does_not_write_over_what_the_next_one_knows() -> None:
    site = Site()
    with Monitor(site) as frozen:
        wait_until(lambda: frozen.evaluate(BAD) and site.topic.values)
        with Monitor(site) as following:
            wait_until(lambda: following.evaluate(GOOD).incident.is_open)
            while following.evaluate(GOOD).incident.is_open:
                pass
            wait_until(lambda: not site.topic.stored()[0].is_open)
        before = dict(site.topic.values)
        wait_until(lambda: frozen.evaluate(GOOD) and frozen.keeper.is_shut_out)
        assert site.topic.values == before
        assert MonitorLoop(frozen.cycle, 0.001, (), lambda: frozen.keeper.is_shut_out).run() is LoopEnd.OUSTED
