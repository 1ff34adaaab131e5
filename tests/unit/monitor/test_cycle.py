"""Test an evaluation of the monitor: observe, judge, act."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from mirror.errors import HeadraceError, IllegalTransition, Unreachable
from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner
from mirror.model.datastreams.objectives import Mode, Objective
from mirror.model.identifiers import DatastreamName
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.topics import TopicSelection
from monitor.actions import ActingPolicy, ActionRecord
from monitor.burn.pieces import TimeRangePiece
from monitor.burn.rates import read_rule
from monitor.causes.diagnosis import Cause
from monitor.causes.evidence import BacklogOrigin, Evidence, LaneEvidence
from monitor.causes.inquiry import LEAST_SECONDS, MOST_QUESTIONS
from monitor.cycle import LoopEnd, MonitorCycle, MonitorLoop
from monitor.evaluation import Evaluation
from monitor.incidents import IncidentPolicy
from monitor.latency import LatencyObservation, ObjectiveStatus, ObjectiveSubject, Observations, Source
from monitor.movement.summary import NOTHING_KNOWN, DatastreamStates, FleetMovement, Movement
from monitor.objectives.budgets import Budgets
from monitor.objectives.late_times import LateSpan, LateTopics, TopicLateness
from monitor.objectives.past import TopicLatencySums
from monitor.ports import LeaseHold, Preview
from tests.fakes.clock import ManualClock
from tests.patience import PATIENCE_SECONDS, wait_until

ORDERS = DatastreamName("orders")
GOOD = LatencyObservation(0, (0,) * LATENCY_BUCKETS, 0)
BAD = LatencyObservation(0, (0,) * LATENCY_BUCKETS, 99_999)


SOURCE = Source("orders", "east")


def a_subject(halted: str = "") -> ObjectiveSubject:
    return ObjectiveSubject(LatencyObjective(1000), SOURCE, TopicSelection("t"), halted)


def held(*owners: QuotaOwner) -> Evidence:
    """Return late lanes of one task that such quotas throttle."""
    return Evidence(
        tuple(
            LaneEvidence(f"t-{number}", "one", "orders-0", lag_ms=99_999, hold=QuotaHold(owner, 0.5))
            for number, owner in enumerate(owners)
        )
    )


OVERLOADED = held(QuotaOwner.TASK, QuotaOwner.TASK)
THROTTLED = held(QuotaOwner.DESTINATION)


class World:
    """Fake service and measurements, configured by the test."""

    remark = ""

    def __init__(self) -> None:
        self.wanted: dict[DatastreamName, ObjectiveSubject] = {ORDERS: a_subject()}
        self.seen: dict[Source, dict[str, LatencyObservation]] = {SOURCE: {"t": GOOD}}
        self.moves = 2
        self.loads_known = True
        self.failure: HeadraceError | None = None
        self.lost: Exception | None = None
        """Error of a rebalance request after the service has queued it."""
        self.asked: list[tuple[str, str]] = []
        self.previews = 0
        self.judges_itself = False
        self.other, self.released = "", 0
        self.record: ActionRecord | None = ActionRecord()
        self.moving = FleetMovement({ORDERS: DatastreamStates("east", Movement())}, is_complete=True)
        self.no_movements: HeadraceError | None = None
        self.why: Evidence | HeadraceError = OVERLOADED
        self.looked = 0
        self.late_times: LateTopics | None = None

    def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
        return self.wanted

    def movements(self) -> FleetMovement:
        if self.no_movements is not None:
            raise self.no_movements
        return self.moving

    def has_own_monitor(self) -> bool:
        return self.judges_itself

    def hold(self) -> LeaseHold:
        return LeaseHold(self.other, self.record)

    def release(self) -> None:
        self.released += 1

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics | None:
        return self.late_times

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        assert window_seconds == 60.0
        return self.seen

    def evidence(self, subject: ObjectiveSubject) -> Evidence:
        self.looked += 1
        if isinstance(self.why, HeadraceError):
            raise self.why
        return self.why

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        self.previews += 1
        if self.failure is not None:
            raise self.failure
        return Preview(f"{self.moves} partitions move", self.moves, self.loads_known)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        self.asked.append((name, reason))
        if self.lost is not None:
            raise self.lost
        return "r-1"


class Rig:
    def __init__(self) -> None:
        self.world, self.clock = World(), ManualClock()
        policy = IncidentPolicy(open_after=2, close_after=2, cooldown_seconds=60.0)
        self.cycle = MonitorCycle(self.world, self.world, policy, self.clock, 60.0)

    def evaluate(self, observation: LatencyObservation | None, seconds: float = 10.0) -> str:
        self.clock.advance(seconds)
        self.world.seen = {SOURCE: {"t": observation}} if observation else {}
        return self.cycle.evaluate()[ORDERS].action


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_breach_that_lasts_is_answered_by_a_rebalance_that_says_why(rig: Rig) -> None:
    assert rig.evaluate(BAD) == ""
    action = rig.evaluate(BAD)
    assert re.search(r"\bopened\b.*\br-1\b.*\b2 partitions\b", action)
    ((name, reason),) = rig.world.asked
    assert name == ORDERS
    assert "2 min" in reason


def test_what_no_placement_helps_against_is_said_once_and_no_rebalance_is_asked_for(rig: Rig) -> None:
    rig.world.why = THROTTLED
    rig.evaluate(BAD)
    assert re.search(r"\bquota: .*\bdestination\b.* 50% ", rig.evaluate(BAD))
    for _ in range(30):
        assert rig.evaluate(BAD) == ""
    assert (rig.world.asked, rig.world.previews) == ([], 0)


def test_a_cause_that_becomes_one_of_placement_is_acted_on_at_once(rig: Rig) -> None:
    rig.world.why = THROTTLED
    rig.evaluate(BAD)
    rig.evaluate(BAD)
    rig.world.why = OVERLOADED
    assert f"{Cause.OVERLOADED_TASK}: orders-0 " in rig.evaluate(BAD)
    ((_, reason),) = rig.world.asked
    assert f"{Cause.OVERLOADED_TASK}: orders-0 " in reason
    rig.world.why = THROTTLED
    assert "quota: " in rig.evaluate(BAD, 70.0)
    assert len(rig.world.asked) == 1


def test_a_diagnosis_comes_with_what_is_found_while_an_incident_is_open(rig: Rig) -> None:
    def found(observation: LatencyObservation) -> Cause | None:
        rig.clock.advance(10.0)
        rig.world.seen = {SOURCE: {"t": observation}}
        diagnosis = rig.cycle.evaluate()[ORDERS].diagnosis
        return diagnosis.cause if diagnosis else None

    causes = [found(one) for one in (BAD, BAD, GOOD, BAD, GOOD, GOOD)]
    assert causes == [None, Cause.OVERLOADED_TASK, None, Cause.OVERLOADED_TASK, None, None]
    assert rig.world.looked == 2, "no evidence is read for a healthy datastream"


def test_a_new_monitor_does_not_blame_the_fault_before_this_one(rig: Rig) -> None:
    """It reads two minutes back, because nobody may have evaluated them, but its window is one minute."""
    rig.evaluate(BAD)
    now_ms = rig.clock.now_ms() + 10_000
    spans = [LateSpan(now_ms - before - 1_000, now_ms - before + 5_000, 9_000) for before in (100_000, 9_000)]
    rig.world.late_times = {SOURCE: {"t": TopicLateness(spans, 0)}}
    origins = [(BacklogOrigin.WORKER, 100_000)] * 2 + [(BacklogOrigin.INSTANCE, 9_000)]
    rig.world.why = Evidence(
        tuple(
            LaneEvidence(f"t-{number}", "one", "orders-0", origin=origin, origin_ms=now_ms - before)
            for number, (origin, before) in enumerate(origins)
        )
    )
    rig.clock.advance(10.0)
    diagnosis = rig.cycle.evaluate()[ORDERS].diagnosis
    assert diagnosis is not None
    assert diagnosis.cause is Cause.INSTANCE_LOST


def test_where_the_evidence_cannot_be_read_that_is_said_and_a_dry_run_decides(rig: Rig) -> None:
    rig.world.why = Unreachable("restarting")
    rig.evaluate(BAD)
    action = rig.evaluate(BAD)
    assert re.search(": restarting; rebalance r-1 ", action)
    assert rig.cycle.evaluate()[ORDERS].diagnosis is None


def test_judging_once_says_the_cause_of_a_breach_and_asks_for_nothing(rig: Rig) -> None:
    rig.world.seen = {SOURCE: {"t": GOOD}}
    assert rig.cycle.judge_only()[ORDERS].cause == ""
    assert rig.world.looked == 0
    rig.world.seen = {SOURCE: {"t": BAD}}
    assert rig.cycle.judge_only()[ORDERS].cause.startswith(f"{Cause.OVERLOADED_TASK}: orders-0 ")
    rig.world.why = Unreachable("restarting")
    rig.clock.advance(LEAST_SECONDS)
    assert rig.cycle.judge_only()[ORDERS].cause.endswith(": restarting")
    assert (rig.world.asked, rig.world.previews) == ([], 0)


def test_judging_once_says_the_cause_of_every_breach(rig: Rig) -> None:
    names = [DatastreamName(f"d-{number}") for number in range(2 * MOST_QUESTIONS + 1)]
    rig.world.wanted = dict.fromkeys(names, a_subject())
    rig.world.seen = {SOURCE: {"t": BAD}}
    for _ in range(2):
        verdicts = rig.cycle.judge_only()
        assert verdicts.keys() == set(names)
        assert {verdict.cause.partition(":")[0] for verdict in verdicts.values()} == {Cause.OVERLOADED_TASK}
        rig.clock.advance(LEAST_SECONDS)


def test_lanes_are_asked_about_every_few_seconds_at_most(rig: Rig) -> None:
    rig.evaluate(BAD)
    for _ in range(20):
        rig.evaluate(BAD, 1.0)
    assert rig.world.looked == 20 / LEAST_SECONDS


def test_it_is_not_asked_for_again_before_it_can_have_helped(rig: Rig) -> None:
    for _ in range(6):
        rig.evaluate(BAD)
    assert len(rig.world.asked) == 1
    for _ in range(6):
        rig.evaluate(BAD)
    assert len(rig.world.asked) == 2


def test_it_is_not_asked_for_when_it_would_move_nothing(rig: Rig) -> None:
    rig.world.moves = 0
    rig.evaluate(BAD)
    assert "would not help" in rig.evaluate(BAD)
    assert rig.world.asked == []


def test_no_moves_without_loads_is_no_answer_and_it_is_asked_again(rig: Rig) -> None:
    rig.world.moves, rig.world.loads_known = 0, False
    rig.evaluate(BAD)
    action = rig.evaluate(BAD)
    assert "would not help" not in action
    assert "loads" in action
    rig.world.moves, rig.world.loads_known = 2, True
    assert "rebalance r-1 " in rig.evaluate(BAD)


def test_a_service_that_cannot_be_asked_is_asked_again_at_the_next_evaluation(rig: Rig) -> None:
    rig.world.failure = Unreachable("restarting")
    rig.evaluate(BAD)
    assert ": restarting" in rig.evaluate(BAD)
    rig.world.failure = None
    assert "rebalance r-1 " in rig.evaluate(BAD)
    assert len(rig.world.asked) == 1


@pytest.mark.parametrize("lost", [Unreachable("restarting"), HeadraceError("HTTP 500"), KeyError("request")])
def test_a_request_without_response_is_not_repeated_before_the_cooldown(rig: Rig, lost: Exception) -> None:
    rig.world.lost = lost
    rig.evaluate(BAD)
    rig.clock.advance(10.0)
    finding = rig.cycle.evaluate()[ORDERS]
    assert finding.has_acted
    assert "without a response" in finding.action
    rig.world.lost = None
    for _ in range(5):
        rig.evaluate(BAD)
    assert len(rig.world.asked) == 1
    assert "rebalance r-1 " in rig.evaluate(BAD)


def test_a_rejected_request_is_repeated_at_the_next_evaluation(rig: Rig) -> None:
    rig.world.lost = IllegalTransition("still pending")
    rig.evaluate(BAD)
    assert "could not request a rebalance: still pending" in rig.evaluate(BAD)
    rig.world.lost = None
    assert "rebalance r-1 " in rig.evaluate(BAD)


def test_good_times_close_the_incident(rig: Rig) -> None:
    for observation in (BAD, BAD, GOOD):
        rig.evaluate(observation)
    assert rig.evaluate(GOOD) == "incident closed"


def test_a_source_that_dies_closes_no_incident_and_no_rebalance_is_asked_for(rig: Rig) -> None:
    for observation in (BAD, BAD, GOOD):
        rig.evaluate(observation)
    rig.world.wanted = {ORDERS: a_subject(halted="east does not answer")}
    for _ in range(5):
        assert rig.evaluate(GOOD) == ""
    for _ in range(10):
        assert rig.evaluate(BAD) == ""
    assert len(rig.world.asked) == 1
    rig.world.wanted = {ORDERS: a_subject()}
    assert rig.evaluate(GOOD) == ""
    assert rig.evaluate(GOOD) == "incident closed"


def test_nothing_measured_is_neither_good_nor_bad(rig: Rig) -> None:
    rig.evaluate(BAD)
    assert rig.evaluate(None) == ""
    assert "incident opened" in rig.evaluate(BAD)
    for _ in range(5):
        assert rig.evaluate(None) == ""


def test_a_datastream_that_is_gone_is_forgotten(rig: Rig) -> None:
    rig.evaluate(BAD)
    rig.world.wanted = {}
    assert rig.cycle.evaluate() == {}
    rig.world.wanted = {ORDERS: a_subject()}
    assert rig.evaluate(BAD) == ""


def test_judging_alone_has_no_consequence(rig: Rig) -> None:
    rig.world.seen = {SOURCE: {"t": BAD}}
    for _ in range(5):
        assert rig.cycle.judge_only()[ORDERS].standing is ObjectiveStatus.BREACHED
    assert rig.world.asked == []
    assert rig.evaluate(BAD) == ""


class RecordingListener:
    """Listener that records the evaluations."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.moving = NOTHING_KNOWN

    def judged(self, findings: Mapping[DatastreamName, Evaluation], movements: FleetMovement) -> None:
        self.heard += [f"{name} from {one.cluster}: {one.action}" for name, one in findings.items()]
        self.moving = movements

    def judging_failed(self, reason: str, movements: FleetMovement) -> None:
        self.heard.append(reason)
        assert movements.is_complete, "movements do not depend on measurements"


class Answering(World):
    """Return one response per evaluation. A further evaluation gets the first response again and stops the
    loop."""

    def __init__(self, first: Observations, *others: Observations | Exception) -> None:
        super().__init__()
        self.stop: Callable[[], None] = lambda: None
        self._first = first
        self._answers = iter((first, *others))

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        answer = next(self._answers, None)
        if answer is None:
            self.stop()
            return self._first
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_listener_gets_every_evaluation_and_empty_results() -> None:
    rig, ear = Rig(), RecordingListener()
    bad: Observations = {SOURCE: {"t": BAD}}
    world = Answering(bad, Unreachable("Pinot is away"), bad)
    cycle = MonitorCycle(world, world, IncidentPolicy(open_after=2), rig.clock, 60.0)
    loop = MonitorLoop(cycle, 0.001, [ear])
    world.stop = loop.stop
    loop.run()
    first, second, third, _ = ear.heard
    assert (first, second) == ("orders from east: ", "Pinot is away")
    assert third.startswith(f"{first}incident opened")
    assert ear.moving == world.moving


def test_an_evaluation_or_a_listener_that_fails_for_a_defect_ends_no_monitor() -> None:
    rig, ear = Rig(), RecordingListener()
    well: Observations = {SOURCE: {"t": GOOD}}

    class Broken:
        def judged(self, findings: Mapping[DatastreamName, Evaluation], movements: FleetMovement) -> None:
            raise RuntimeError("a listener's")

        def judging_failed(self, reason: str, movements: FleetMovement) -> None:
            raise RuntimeError("a listener's")

    world = Answering(well, ZeroDivisionError("ours"))
    loop = MonitorLoop(MonitorCycle(world, world, IncidentPolicy(), rig.clock, 60.0), 0.001, [Broken(), ear])
    world.stop = loop.stop
    assert loop.run() is LoopEnd.STOPPED
    assert [one.partition(":")[0] for one in ear.heard] == [
        "orders from east",
        "evaluation failed",
        "orders from east",
    ]


def test_a_service_that_does_not_say_what_partitions_do_is_judged_all_the_same(rig: Rig) -> None:
    rig.world.no_movements = Unreachable("the answer took too long")
    assert rig.cycle.movements() is NOTHING_KNOWN
    assert rig.evaluate(GOOD) == ""


def test_budgets_are_judged_beside_the_verdict_and_change_no_standing(rig: Rig) -> None:
    class Past:
        """Past with half of the records late in every piece. `is_away`: unreachable."""

        is_away = False

        def past(
            self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
        ) -> TopicLatencySums:
            if self.is_away:
                raise Unreachable("Pinot is away")
            late = dict.fromkeys(milliseconds, (500.0,))
            return TopicLatencySums([(*SOURCE, "t")], [1_000], late, {})

    past, rules = Past(), [read_rule("14.4 over 1 h and 5 m")]
    rig.world.wanted = {ORDERS: replace(a_subject(), objectives=(Objective(1000, 99.0, period_days=1),))}
    budgets = Budgets(past, rig.clock, rules, 100, 30)
    cycle = MonitorCycle(rig.world, rig.world, IncidentPolicy(), rig.clock, 60.0, budgets)
    verdict = cycle.judge_only()[ORDERS]
    (budget,) = verdict.budgets
    assert verdict.standing is ObjectiveStatus.WITHIN
    assert budget.left == pytest.approx(-49)
    assert [burn.rule.text for burn in budget.firing] == ["14.4 over 1 h and 5 m"]
    assert cycle.evaluate()[ORDERS].verdict.budgets == (budget,)
    past.is_away = True
    assert cycle.evaluate()[ORDERS].verdict.budgets == (budget,), "budgets are not judged in every evaluation"
    rig.clock.advance(30.0)
    (unknown,) = cycle.evaluate()[ORDERS].verdict.budgets
    assert (unknown.left, unknown.firing) == (None, ())
    past.is_away = False
    rig.world.wanted[DatastreamName("new")] = replace(a_subject(), objectives=(Objective(5, 99.0),))
    rig.clock.advance(59.0)
    found = cycle.evaluate()
    assert [one.left for name in found for one in found[name].verdict.budgets] == [None, None], "not read yet"
    rig.clock.advance(1.0)
    verdicts = cycle.judge_only()
    assert verdicts[ORDERS].budgets == (budget,)
    assert verdicts[DatastreamName("new")].budgets[0].left is not None


def test_the_reason_of_a_rebalance_fits_however_many_objectives_are_breached(rig: Rig) -> None:
    rig.world.wanted = {ORDERS: replace(a_subject(), remark="x" * 2_000)}
    for _ in range(2):
        rig.evaluate(BAD)
    ((_, reason),) = rig.world.asked
    assert len(reason) == 1_000


class Policed(Rig):
    """A rig with a given policy and a second datastream."""

    def __init__(self, acting: ActingPolicy) -> None:
        super().__init__()
        policy = IncidentPolicy(open_after=1, close_after=2, cooldown_seconds=60.0, acting=acting)
        self.cycle = MonitorCycle(self.world, self.world, policy, self.clock, 60.0)

    def note(self, record: ActionRecord | None) -> None:
        self.world.record = record
        assert self.cycle.held_by() == ""


def test_where_it_only_observes_it_says_what_it_would_have_asked_for() -> None:
    rig = Policed(ActingPolicy(mode=Mode.OBSERVE))
    assert re.search(r"\bobserves\b.*\b2 partitions\b", rig.evaluate(BAD))
    assert rig.evaluate(BAD) == "", "reported once per cooldown"
    rig.world.wanted = {ORDERS: replace(a_subject(), mode=Mode.ACT)}
    assert "rebalance r-1 " in rig.evaluate(BAD, 60.0)
    rig = Policed(ActingPolicy())
    rig.world.wanted = {ORDERS: replace(a_subject(), mode=Mode.OBSERVE)}
    assert "observes" in rig.evaluate(BAD)
    assert rig.world.asked == []


def test_what_is_forbidden_is_asked_for_as_soon_as_it_is_not() -> None:
    rig = Policed(ActingPolicy())
    rig.note(ActionRecord(switched_off="a migration"))
    for _ in range(3):
        assert ": a migration" in rig.evaluate(BAD)
    assert (rig.world.asked, rig.world.previews) == ([], 0)
    rig.note(ActionRecord())
    assert "rebalance r-1 " in rig.evaluate(BAD)


def test_two_datastreams_are_helped_one_after_the_other() -> None:
    rig, clicks = Policed(ActingPolicy()), DatastreamName("clicks")
    rig.world.wanted = {ORDERS: a_subject(), clicks: a_subject()}
    rig.evaluate(BAD)
    rig.note(ActionRecord(waiting=clicks))
    assert "clicks" in rig.evaluate(BAD)
    assert [name for name, _ in rig.world.asked] == [clicks]
    rig.note(ActionRecord())
    rig.evaluate(BAD)
    assert [name for name, _ in rig.world.asked] == [clicks, ORDERS]


def test_a_service_that_knows_of_no_leases_has_the_limits_of_what_was_done_here() -> None:
    rig = Policed(ActingPolicy(most_a_day=1))
    rig.note(None)
    assert "rebalance r-1 " in rig.evaluate(BAD)
    rig.note(None)
    assert "monitor.most_a_day" in rig.evaluate(BAD, 60.0)
    assert "rebalance r-1 " in rig.evaluate(BAD, 86_400.0)


def test_without_anything_to_judge_nobody_is_asked_for_measurements(rig: Rig) -> None:
    class Unmeasured(World):
        def observe(
            self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
        ) -> Observations:
            raise AssertionError

    world = Unmeasured()
    world.wanted = {}
    assert MonitorCycle(world, world, IncidentPolicy(), rig.clock, 60.0).evaluate() == {}


def test_a_reason_that_lasts_is_logged_once(rig: Rig) -> None:
    answers = iter(["away", "away", "away", "", "away", "frozen"])

    class Away(World):
        def hold(self) -> LeaseHold:
            reason = next(answers, None)
            if reason is None:
                loop.stop()
            if reason:
                raise Unreachable(reason)
            return super().hold()

    world = Away()
    loop = MonitorLoop(MonitorCycle(world, world, IncidentPolicy(), rig.clock, 60.0), 0.001)
    with capture_logs() as lines:
        loop.run()
    reasons = [one["reason"] for one in lines if one["log_level"] == "warning" and "reason" in one]
    assert reasons == ["away", "away", "frozen"]


def test_a_datastream_that_is_created_again_is_logged_again(rig: Rig, logged: list[EventDict]) -> None:
    """The loop keeps nothing of deleted datastreams, however many there were."""

    class Recreated(World):
        turns = 0

        def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
            self.turns += 1
            if self.turns == 4:
                loop.stop()
            return {} if self.turns == 3 else super().subjects()

    world = Recreated()
    loop = MonitorLoop(MonitorCycle(world, world, IncidentPolicy(), rig.clock, 60.0), 0.001)
    loop.run()
    assert [one["standing"] for one in logged if "standing" in one] == [ObjectiveStatus.WITHIN.value] * 2


def test_an_unexpected_error_about_the_lease_ends_no_monitor(rig: Rig) -> None:
    answers: list[bool | Exception] = [KeyError("lease"), False, True]

    def is_shut_out() -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    ear = RecordingListener()
    loop = MonitorLoop(rig.cycle, 0.001, [ear], is_shut_out)
    rig.world.moving = replace(rig.world.moving, is_complete=True)
    assert loop.run() is LoopEnd.OUSTED
    assert [one.partition(":")[0] for one in ear.heard] == ["evaluation failed", "orders from east"]


def test_the_loop_ends_where_another_monitor_judges(rig: Rig) -> None:
    rig.world.other = "b at host:1"
    assert MonitorLoop(rig.cycle, 0.01).run() is LoopEnd.OUSTED
    assert not rig.world.asked


def test_an_evaluation_that_still_judges_settles_the_standstills_before_it(rig: Rig) -> None:
    class Standstills:
        def __init__(self) -> None:
            self.settled: list[int] = []

        def count(self) -> int:
            return 7

        def settle(self, count: int) -> None:
            self.settled.append(count)
            loop.stop()

    standstills = Standstills()
    loop = MonitorLoop(rig.cycle, 0.001, standstills=standstills)
    assert loop.run() is LoopEnd.STOPPED
    assert standstills.settled == [7]
    rig.world.other = "b at host:1"
    assert MonitorLoop(rig.cycle, 0.001, standstills=standstills).run() is LoopEnd.OUSTED
    assert standstills.settled == [7]


def test_the_loop_ends_where_the_service_judges_itself(rig: Rig) -> None:
    rig.world.judges_itself = True
    assert MonitorLoop(rig.cycle, 0.01).run() is LoopEnd.LEFT
    assert not rig.world.asked
    assert not rig.world.previews


def test_the_loop_outlives_what_can_pass_and_ends_when_told() -> None:
    rig = Rig()
    calls: list[int] = []

    class Failing(World):
        def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
            calls.append(1)
            if len(calls) % 2:
                raise Unreachable("now and then")
            return super().subjects()

    world = Failing()
    cycle = MonitorCycle(world, world, IncidentPolicy(), rig.clock, 60.0)
    loop = MonitorLoop(cycle, 0.01)
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: len(calls) >= 4)
    loop.stop()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
