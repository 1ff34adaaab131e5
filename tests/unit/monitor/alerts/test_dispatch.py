"""Test the delivery of alerts to receivers that are slow, frozen or unreachable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pytest
from prometheus_client import generate_latest

from mirror.adapters.system_clock import SystemClock
from mirror.coordination.monitors.state import LEASE_SECONDS
from mirror.errors import InvalidRequest, Refused, Unreachable
from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName
from mirror.ports import Clock
from monitor.alerts.alert import Alert, AlertNotice, Style
from monitor.alerts.alert_metrics import AlertMetrics
from monitor.alerts.catalogue import TOPIC_RETIREMENT, AlertPatience
from monitor.alerts.conditions import Conditions
from monitor.alerts.deliveries.delivery import Delivery
from monitor.alerts.deliveries.messages import grouped_by
from monitor.alerts.deliveries.outbox import Outbox, Schedule
from monitor.alerts.deliveries.standstill import LONGEST_SECONDS, PauseDetector
from monitor.alerts.dispatch import AlertDispatch
from monitor.alerts.silence import Silence
from monitor.burn.rates import Budget, BurnResult, read_rule
from monitor.evaluation import Evaluation
from monitor.incidents import Incident
from monitor.latency import LatencyVerdict, ObjectiveStatus
from monitor.movement.summary import NOTHING_KNOWN
from tests.fakes.clock import ManualClock
from tests.patience import PATIENCE_SECONDS, wait_until

LATE: Final = Evaluation(
    LatencyVerdict(ObjectiveStatus.BREACHED, None, "late"), Incident(is_open=True), "", "east"
)
WELL: Final = Evaluation(LatencyVerdict(ObjectiveStatus.WITHIN, 1.0, "well"), Incident(), "", "east")
ORDERS, CLICKS = DatastreamName("orders"), DatastreamName("clicks")


class Memory:
    """Receiver that records messages. `before`: called before it accepts a message."""

    takes_watchdog = False

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.before = before
        self.messages: list[list[AlertNotice]] = []

    def send(self, notices: Sequence[AlertNotice], now_ms: int) -> None:
        self.before()
        self.messages.append(list(notices))

    def heard(self) -> list[tuple[str, bool]]:
        return [(one.labels.get("datastream", ""), one.is_firing) for each in self.messages for one in each]


class Rig:
    """A dispatch that sends immediately and repeats after a minute."""

    def __init__(
        self,
        clock: Clock,
        *receivers: Memory,
        schedule: Schedule | None = None,
        standstill: PauseDetector | None = None,
    ) -> None:
        self.metrics = AlertMetrics()
        self.silences: list[Silence] = []
        chosen = schedule or Schedule(0.0, 60.0, 0.01)
        deliveries = [
            Delivery(
                f"r{number}",
                one,
                Outbox(chosen, grouped_by(["cluster"])),
                clock,
                self.metrics,
                takes_watchdog=one.takes_watchdog,
                may_tell=lambda: standstill is None or standstill.is_settled,
            )
            for number, one in enumerate(receivers)
        ]
        patience = AlertPatience(blind_after_seconds=0.0, receiver_after_seconds=0.0)
        style = Style({}, "", "http://here")
        self.dispatch = AlertDispatch(
            Conditions(patience), style, lambda: self.silences, deliveries, clock, self.metrics
        )

    def judged(self, **found: Evaluation) -> None:
        self.dispatch.judged({DatastreamName(name): one for name, one in found.items()}, NOTHING_KNOWN)

    def metric(self, name: str) -> float:
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


@contextmanager
def running(*receivers: Memory, schedule: Schedule | None = None) -> Iterator[Rig]:
    rig = Rig(SystemClock(), *receivers, schedule=schedule)
    rig.dispatch.start()
    try:
        yield rig
    finally:
        rig.dispatch.stop(PATIENCE_SECONDS)


def test_an_alert_fires_once_and_resolves_once() -> None:
    receiver = Memory()
    with running(receiver) as rig:
        for _ in range(5):
            rig.judged(orders=LATE)
        wait_until(lambda: receiver.messages)
        assert rig.metric('headrace_alerts_firing{alertname="HeadraceLatencyObjectiveBreached"}') == 1
        rig.judged(orders=WELL)
        wait_until(lambda: len(receiver.messages) == 2)
        rig.judged(orders=WELL)
    assert receiver.heard() == [("orders", True), ("orders", False)]
    fired, over = receiver.messages[0][0], receiver.messages[1][0]
    assert fired.key == over.key
    assert over.ended_ms is not None
    assert over.ended_ms >= over.starts_ms == fired.starts_ms
    assert rig.metric('headrace_alerts_sent_total{receiver="r0",state="resolved"}') == 1


def test_a_datastream_that_is_made_again_with_another_source_ends_the_alert_of_the_former_one() -> None:
    receiver = Memory()
    with running(receiver) as rig:
        rig.judged(orders=LATE)
        wait_until(receiver.heard)
        rig.judged(orders=replace(LATE, cluster="west"))
        wait_until(lambda: len(receiver.heard()) >= 3)
        rig.judged(orders=replace(WELL, cluster="west"))
        wait_until(lambda: len(receiver.heard()) >= 4)
    heard = [(one.labels["cluster"], one.is_firing) for each in receiver.messages for one in each]
    assert {("east", True), ("east", False), ("west", True), ("west", False)} == set(heard)
    assert heard.count(("east", False)) == heard.count(("west", False)) == 1


def test_nothing_to_judge_is_an_alert_of_its_own_and_ends_no_other() -> None:
    receiver = Memory()
    with running(receiver) as rig:
        rig.judged(orders=LATE)
        rig.dispatch.judging_failed("Pinot does not answer", NOTHING_KNOWN)
        wait_until(lambda: len(receiver.heard()) == 2)
        rig.judged(orders=LATE)
        wait_until(lambda: len(receiver.heard()) == 3)
    assert receiver.heard()[2] == ("", False)


def test_a_receiver_that_is_frozen_holds_up_neither_the_judging_nor_the_others() -> None:
    thaw = threading.Event()
    frozen, well = Memory(lambda: assert_set(thaw)), Memory()
    with running(frozen, well) as rig:
        rig.judged(orders=LATE)
        rig.judged(orders=WELL)
        rig.judged(orders=LATE, clicks=LATE)
        wait_until(lambda: {("orders", True), ("clicks", True)} <= set(well.heard()))
        assert frozen.messages == []
        rig.judged(orders=WELL, clicks=LATE)
        wait_until(lambda: ("orders", False) in well.heard())
        thaw.set()
        wait_until(lambda: {("clicks", True), ("orders", False)} <= set(frozen.heard()))


def assert_set(event: threading.Event) -> None:
    assert event.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("error", [Unreachable("away"), Refused("no"), RuntimeError("a fault of ours")])
def test_after_an_outage_it_hears_what_is_true_then(error: Exception) -> None:
    is_away = threading.Event()
    is_away.set()
    attempts: list[int] = []

    def answer() -> None:
        attempts.append(1)
        if is_away.is_set():
            raise error

    receiver = Memory(answer)
    with running(receiver) as rig:
        rig.judged(orders=LATE, clicks=LATE)
        wait_until(lambda: len(attempts) > 2)
        assert rig.metric('headrace_alerts_waiting{receiver="r0"}') == 2
        rig.judged(orders=WELL, clicks=LATE)
        is_away.clear()
        wait_until(lambda: len(receiver.heard()) == 2)
        assert sorted(receiver.heard()) == [("clicks", True), ("orders", False)]
        assert rig.metric('headrace_alerts_waiting{receiver="r0"}') == 0
        assert rig.metric('headrace_alerts_failed_total{receiver="r0"}') >= 4


def test_a_message_that_is_refused_as_it_is_is_not_sent_again_at_once() -> None:
    answers = iter([InvalidRequest("no such label")])
    receiver = Memory(lambda: raise_next(answers))
    with running(receiver) as rig:
        rig.judged(orders=LATE)
        wait_until(lambda: rig.metric('headrace_alerts_failed_total{receiver="r0"}'))
        rig.judged(orders=WELL)
        wait_until(lambda: receiver.messages)
    assert receiver.heard() == [("orders", False)]


def test_alerts_that_are_too_many_for_a_receiver_are_sent_in_parts() -> None:
    class Small(Memory):
        def send(self, notices: Sequence[AlertNotice], now_ms: int) -> None:
            if len(notices) > 1:
                raise InvalidRequest("HTTP status 413")
            super().send(notices, now_ms)

    receiver = Small()
    with running(receiver) as rig:
        rig.judged(orders=LATE, clicks=LATE)
        wait_until(lambda: len(receiver.heard()) == 2)
    assert sorted(receiver.heard()) == [("clicks", True), ("orders", True)]


def raise_next(errors: Iterator[Exception]) -> None:
    for error in errors:
        raise error


def test_the_end_of_the_monitor_tries_what_waits_and_ends_no_alert() -> None:
    receiver = Memory()
    with running(receiver, schedule=Schedule(3600.0, 3600.0)) as rig:
        rig.judged(orders=LATE)
    assert receiver.heard() == [("orders", True)]
    rig.dispatch.stop(PATIENCE_SECONDS)


def test_alerts_that_no_evaluation_has_confirmed_for_a_lease_are_not_sent() -> None:
    """A frozen monitor does not know the messages that its successor has sent."""
    clock, receiver = ManualClock(), Memory()
    rig = Rig(clock, receiver)
    rig.judged(orders=WELL, clicks=LATE)
    rig.judged(orders=LATE, clicks=WELL)
    clock.advance(LEASE_SECONDS)
    rig.dispatch.start()
    rig.dispatch.stop(PATIENCE_SECONDS)
    assert receiver.messages == []
    rig = Rig(clock, receiver)
    rig.judged(orders=LATE)
    clock.advance(LEASE_SECONDS - 1.0)
    rig.dispatch.start()
    rig.dispatch.stop(PATIENCE_SECONDS)
    assert receiver.heard() == [("orders", True)]


@pytest.mark.parametrize("is_judging", [True, False])
def test_after_a_standstill_nothing_is_told_before_it_is_known_who_judges(is_judging: bool) -> None:
    """Another monitor may have taken over after a standstill, even if an evaluation ends later."""
    clock, receiver = ManualClock(), Memory()
    standstill = PauseDetector(clock)
    rig = Rig(clock, receiver, standstill=standstill)
    rig.judged(orders=LATE)
    seen = standstill.count()
    clock.advance(LONGEST_SECONDS + 0.1)
    rig.judged(orders=LATE)
    standstill.settle(seen)
    assert not standstill.is_settled, "the check predates the standstill"
    if is_judging:
        standstill.settle(standstill.count())
    rig.dispatch.start()
    rig.dispatch.stop(PATIENCE_SECONDS)
    assert receiver.heard() == ([("orders", True)] if is_judging else [])


def test_where_nobody_says_who_judges_alerts_are_told_when_a_lease_would_be_over() -> None:
    clock, receiver = ManualClock(), Memory()
    standstill = PauseDetector(clock)
    rig = Rig(clock, receiver, standstill=standstill)
    clock.advance(60.0)
    assert not standstill.is_settled
    for _ in range(int(LEASE_SECONDS)):
        clock.advance(1.0)
        standstill.count()
    rig.dispatch.judging_failed("no instance answers", NOTHING_KNOWN)
    rig.dispatch.start()
    rig.dispatch.stop(PATIENCE_SECONDS)
    assert receiver.heard() == [("", True)]


def test_an_evaluation_that_takes_long_is_no_standstill() -> None:
    clock = ManualClock()
    standstill = PauseDetector(clock)
    for _ in range(int(LEASE_SECONDS)):
        clock.advance(1.0)
        assert standstill.is_settled
    standstill.start()
    looked = threading.active_count()
    standstill.stop(PATIENCE_SECONDS)
    assert threading.active_count() < looked


def test_the_end_of_the_monitor_waits_for_nobody_who_is_frozen() -> None:
    thaw = threading.Event()
    frozen = Memory(lambda: assert_set(thaw))
    rig = Rig(SystemClock(), frozen)
    rig.dispatch.start()
    rig.judged(orders=LATE)
    rig.dispatch.stop(0.01)
    assert frozen.messages == []
    thaw.set()
    rig.dispatch.stop(PATIENCE_SECONDS)


def test_alerts_of_one_cluster_are_one_message() -> None:
    receiver = Memory()
    with running(receiver, schedule=Schedule(3600.0, 3600.0)) as rig:
        elsewhere = Evaluation(LATE.verdict, LATE.incident, "", "west")
        rig.judged(orders=LATE, clicks=LATE, users=elsewhere)
    assert sorted(len(one) for one in receiver.messages) == [1, 2]


def test_a_silence_holds_back_what_fires_until_it_ends() -> None:
    clock, receiver = ManualClock(), Memory()
    rig = Rig(clock, receiver)
    rig.silences = [Silence("ord*", clock.now_ms() + 60_000, "migration")]
    rig.dispatch.start()
    try:
        rig.judged(orders=LATE, clicks=LATE)
        wait_until(lambda: receiver.messages)
        assert receiver.heard() == [("clicks", True)]
        assert rig.metric("headrace_alerts_silenced") == 1
        clock.advance(59.0)
        rig.judged(orders=LATE, clicks=LATE)
        clock.advance(1.0)
        rig.judged(orders=LATE, clicks=LATE)
        wait_until(lambda: ("orders", True) in receiver.heard())
    finally:
        rig.dispatch.stop(PATIENCE_SECONDS)


def test_what_ends_in_a_silence_is_said_to_those_who_heard_of_it() -> None:
    receiver = Memory()
    with running(receiver) as rig:
        rig.judged(orders=LATE)
        wait_until(lambda: receiver.messages)
        rig.silences = [Silence("*", 2**60)]
        rig.judged(orders=LATE, clicks=LATE)
        rig.judged(orders=WELL, clicks=WELL)
        wait_until(lambda: len(receiver.messages) == 2)
        rig.dispatch.judging_failed("silenced too", NOTHING_KNOWN)
    assert receiver.heard() == [("orders", True), ("orders", False)]


def test_only_everything_silences_alerts_of_the_whole_service() -> None:
    receiver = Memory()
    with running(receiver) as rig:
        rig.silences = [Silence("?*", 2**60), Silence("", 2**60)]
        rig.dispatch.judging_failed("Pinot does not answer", NOTHING_KNOWN)
        wait_until(lambda: receiver.messages)
    assert receiver.heard() == [("", True)]


def test_that_a_receiver_is_away_is_told_to_the_others_until_it_is_back() -> None:
    failures: list[Exception] = [Unreachable("mail server away")]

    def may_fail() -> None:
        if failures:
            raise failures[0]

    broken, well = Memory(may_fail), Memory()
    with running(broken, well) as rig:

        def is_late() -> bool:
            rig.judged(orders=LATE)
            return True

        wait_until(lambda: is_late() and len(well.heard()) >= 2)
        away = next(one for each in well.messages for one in each if "receiver" in one.labels)
        assert (away.labels["alertname"], away.labels["receiver"]) == ("HeadraceReceiverAway", "r0")
        assert away.annotations["description"] == "mail server away"
        failures.clear()
        wait_until(lambda: broken.messages)
        wait_until(lambda: is_late() and not well.messages[-1][-1].is_firing)
    assert all("receiver" not in one.labels for each in broken.messages for one in each)


def test_a_source_of_alerts_that_fails_affects_no_other_alert_and_its_own_continue() -> None:
    retired = [Alert(TOPIC_RETIREMENT, "old is being retired", "", 0, "orders", topic="old")]
    answers: list[list[Alert] | Exception] = [retired, KeyError("topics"), []]

    def watched(_: int) -> list[Alert]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    clock = ManualClock()
    rig = Rig(clock)
    rig.dispatch.watch(watched, lambda _: [])
    fired = []
    for _ in range(3):
        clock.advance(10.0)
        rig.judged(orders=LATE)
        fired.append(len(rig.dispatch.firing))
    assert fired == [2, 2, 1]


def test_a_receiver_for_which_no_alert_is_left_is_not_away() -> None:
    """A silence during an outage leaves nothing to send, so that no attempt would show the end of the
    outage."""
    away = Memory(lambda: raise_next(iter([Unreachable("away")])))
    with running(away, Memory()) as rig:
        rig.judged(orders=LATE)
        wait_until(lambda: rig.metric('headrace_alerts_failed_total{receiver="r0"}'))
        rig.judged(orders=LATE)
        assert "HeadraceReceiverAway" in {one.kind.name for one in rig.dispatch.firing}
        rig.silences.append(Silence("*", 10**15))

        def is_over() -> bool:
            rig.judged(orders=LATE)
            return "HeadraceReceiverAway" not in {one.kind.name for one in rig.dispatch.firing}

        wait_until(is_over)


def test_the_watchdog_always_fires_for_who_asks_for_it_silenced_or_not() -> None:
    watching, other = Memory(), Memory()
    watching.takes_watchdog = True
    with running(watching, other, schedule=Schedule(0.0, 0.001, 0.01)) as rig:
        rig.silences = [Silence("*", 10**15)]
        rig.judged(orders=LATE)
        wait_until(lambda: len(watching.messages) == 1)
        rig.dispatch.judging_failed("Pinot does not answer", NOTHING_KNOWN)
        wait_until(lambda: len(watching.messages) == 2)
        rig.judged()
        wait_until(lambda: len(watching.messages) == 3)
    told = [one for each in watching.messages for one in each]
    assert {(one.labels["alertname"], one.labels["severity"]) for one in told} == {
        ("HeadraceWatchdog", "none")
    }
    assert len({one.starts_ms for one in told}) == 1
    assert all(one.is_firing for one in told)
    assert other.messages == []


def burning(finding: Evaluation) -> Evaluation:
    """The same with an error budget that burns too fast."""
    fast = BurnResult(read_rule("14.4 over 1 h and 5 m"), 20.0, 20.0)
    budgets = (Budget(Objective(2_000, 99.5), 0.5, 30, (fast,)),)
    return replace(finding, verdict=finding.verdict.with_budgets(budgets))


def sent_alerts(memory: Memory) -> list[tuple[str, bool]]:
    return [
        (one.labels["alertname"].removeprefix("Headrace"), one.is_firing)
        for each in memory.messages
        for one in each
    ]


def test_a_budget_that_burns_with_an_incident_is_no_second_page_while_its_windows_hold_that() -> None:
    memory, clock = Memory(), ManualClock()
    rig = Rig(clock, memory, schedule=Schedule(0.0, 3_600.0, 0.01))
    rig.dispatch.start()
    late, well = burning(LATE), burning(WELL)
    rig.judged(orders=LATE)
    wait_until(lambda: sent_alerts(memory) == [("LatencyObjectiveBreached", True)])
    for found, evaluations in ((late, 5), (well, 100)):
        for _ in range(evaluations):
            rig.judged(orders=found)
            clock.advance(20.0)
    assert rig.metric('headrace_alerts_firing{alertname="HeadraceErrorBudgetBurning"') == 1
    wait_until(lambda: len(sent_alerts(memory)) == 2)
    assert sent_alerts(memory) == [("LatencyObjectiveBreached", True), ("LatencyObjectiveBreached", False)]
    for _ in range(20):
        rig.judged(orders=well)
        clock.advance(20.0)
    wait_until(
        lambda: ("ErrorBudgetBurning", True) in sent_alerts(memory), "an alert of the budget that still burns"
    )
    rig.dispatch.stop(PATIENCE_SECONDS)


def test_the_alert_of_a_budget_that_burned_before_an_incident_stays_open() -> None:
    memory, clock = Memory(), ManualClock()
    rig = Rig(clock, memory, schedule=Schedule(0.0, 3_600.0, 0.01))
    rig.dispatch.start()
    rig.judged(orders=burning(WELL))
    wait_until(lambda: sent_alerts(memory) == [("ErrorBudgetBurning", True)])
    for found in (LATE, LATE):
        rig.judged(orders=burning(found))
        clock.advance(20.0)
    wait_until(lambda: len(sent_alerts(memory)) == 2)
    assert ("ErrorBudgetBurning", False) not in sent_alerts(memory)
    rig.judged(orders=WELL)
    wait_until(lambda: ("ErrorBudgetBurning", False) in sent_alerts(memory))
    rig.dispatch.stop(PATIENCE_SECONDS)
