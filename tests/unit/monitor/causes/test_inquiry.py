"""Test how often evidence is read from instances, and which diagnosis applies in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mirror.errors import Unreachable
from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner
from mirror.model.identifiers import DatastreamName
from monitor.causes.diagnosis import Cause
from monitor.causes.evidence import Evidence, LaneEvidence, Phases
from monitor.causes.inquiry import LEAST_SECONDS, MOST_QUESTIONS, Inquiry, InquiryResult

ORDERS = DatastreamName("orders")


class Lanes:
    """Fake evidence that counts the reads."""

    def __init__(self) -> None:
        self.owner: QuotaOwner | None = QuotaOwner.SOURCE
        self.waiting = 900
        self.asked = 0

    def say(self) -> Evidence:
        self.asked += 1
        if self.owner is None:
            raise Unreachable("restarting")
        lane = LaneEvidence("t-0", task="a", lag_ms=9_000, lag_records=self.waiting)
        return Evidence((replace(lane, hold=QuotaHold(self.owner, 0.5)),))


Look = Callable[..., InquiryResult]


@pytest.fixture
def lanes() -> Lanes:
    return Lanes()


@pytest.fixture
def inquiry() -> Inquiry:
    return Inquiry()


@pytest.fixture
def look(inquiry: Inquiry, lanes: Lanes) -> Look:
    def at(now: float, name: DatastreamName = ORDERS) -> InquiryResult:
        return inquiry.check(name, lanes.say, 1_000, now)

    return at


def test_an_answer_counts_for_some_seconds(look: Look, lanes: Lanes) -> None:
    first, again = look(0.0), look(LEAST_SECONDS - 0.1)
    assert lanes.asked == 1
    assert first.diagnosis == again.diagnosis
    assert (first.is_news, again.is_news) == (True, False)
    look(LEAST_SECONDS)
    assert lanes.asked == 2


def test_only_another_cause_is_news(look: Look, lanes: Lanes) -> None:
    assert look(0.0).is_news
    assert not look(10.0).is_news
    lanes.owner = QuotaOwner.TASK
    assert look(20.0).is_news


def test_a_failure_is_said_and_is_no_news_of_the_cause(look: Look, lanes: Lanes) -> None:
    look(0.0)
    lanes.owner = None
    assert look(10.0) == InquiryResult(failure="restarting")
    assert look(11.0) == InquiryResult(failure="restarting")
    lanes.owner = QuotaOwner.SOURCE
    assert look(20.0).diagnosis is not None
    assert not look(20.0).is_news


def test_so_many_are_asked_in_an_evaluation_and_the_others_in_the_next(
    inquiry: Inquiry, look: Look, lanes: Lanes
) -> None:
    names = [DatastreamName(f"d-{number}") for number in range(MOST_QUESTIONS + 2)]
    inquiry.begin(names)
    answers = [look(0.0, name) for name in names]
    assert lanes.asked == MOST_QUESTIONS
    assert [bool(one.failure) for one in answers[-3:]] == [False, True, True]
    inquiry.begin(names)
    answers = [look(LEAST_SECONDS / 2, name) for name in names]
    assert lanes.asked == MOST_QUESTIONS + 2
    assert all(one.diagnosis is not None for one in answers)


def test_what_is_well_again_is_forgotten(inquiry: Inquiry, look: Look, lanes: Lanes) -> None:
    look(0.0)
    inquiry.begin([])
    answer = look(1.0)
    assert lanes.asked == 2
    assert answer.is_news
    assert answer.diagnosis is not None
    assert answer.diagnosis.cause is Cause.BROKER_QUOTA


def test_what_is_caught_up_behind_another_cause_is_no_overload(look: Look, lanes: Lanes) -> None:
    """The task copies at its limit while the backlog shrinks."""
    look(0.0)
    lanes.owner = QuotaOwner.TASK
    for now, waiting in ((10.0, 600), (20.0, 300)):
        lanes.waiting = waiting
        found = look(now).diagnosis
        assert found is not None
        assert (found.cause, found.placement_can_help) == (Cause.BACKLOG, False)
        assert found.evidence["waiting_records"] == waiting
        assert f" {waiting // 30} s " in found.sentence
    found = look(30.0).diagnosis
    assert found is not None
    assert found.cause is Cause.OVERLOADED_TASK, "the backlog no longer shrinks"


def test_an_overload_that_was_found_first_stays_one_while_less_waits(look: Look, lanes: Lanes) -> None:
    lanes.owner = QuotaOwner.TASK
    for now, waiting in ((0.0, 900), (10.0, 600)):
        lanes.waiting = waiting
        found = look(now).diagnosis
        assert found is not None
        assert found.cause is Cause.OVERLOADED_TASK


def test_that_records_waited_at_the_source_counts_from_the_second_look_on(inquiry: Inquiry) -> None:
    """A killed broker also leaves a backlog that waits at the source."""
    waiting = {"at": 900}

    def say() -> Evidence:
        phases = Phases(8_000, 20, 20, 60)
        one = LaneEvidence(
            "t-0", task="a", lag_ms=9_000, lag_records=waiting["at"], phases=phases, batches_per_second=9.0
        )
        return Evidence((replace(one, worker_cpu=0.2),))

    def cause(now: float) -> Cause:
        found = inquiry.check(ORDERS, say, 1_000, now).diagnosis
        assert found is not None
        return found.cause

    assert cause(0.0) is Cause.UNKNOWN
    waiting["at"] = 500
    assert cause(10.0) is Cause.BACKLOG
    waiting["at"] = 600
    assert cause(20.0) is Cause.SOURCE_BOUND, "the backlog no longer shrinks"
