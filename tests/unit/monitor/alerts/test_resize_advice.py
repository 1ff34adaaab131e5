"""Test that a fixed fleet gets one alert per expected shortage, in time, until it was resized."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any, Final

import pytest

from mirror.errors import DamagedState, NotFound, Unreachable
from mirror.model.capacity.advice import HOUR_MS, Advice, GroupNeed, HourNeed
from mirror.model.identifiers import GroupName
from monitor.adapters.rest_service import RestAdvice
from monitor.alerts.alert import Alert
from monitor.alerts.catalogue import AlertPatience, ClockReading
from monitor.alerts.conditions import Conditions
from monitor.alerts.resize_advice import Resize, ResizeWatch, resize_of

MONDAY: Final = 1_767_571_200_000  # 2026-01-05 00:00 UTC
LEAD: Final = 7_200.0


def hours(*most: int) -> tuple[HourNeed, ...]:
    return tuple(HourNeed(MONDAY + n * HOUR_MS, one, one) for n, one in enumerate(most))


def advice(*most: int, now: int = 4, instances: int = 2, each: int | None = 5) -> Advice:
    """Return advice for a group with these hours, a group that always needs one task, and a new group."""
    groups = (
        GroupNeed(GroupName("orders"), now, now, hours(*most)),
        GroupNeed(GroupName("logs"), 1, 1),
        GroupNeed(GroupName("new"), 0, None, why="it has not been planned yet"),
    )
    return Advice(MONDAY, now + 1, instances, None, None, "", "", groups=groups, tasks_per_instance=each)


def test_it_says_when_until_when_how_many_and_what_drives_it() -> None:
    found = resize_of(advice(4, 4, 12, 14, 12, 4, 14), LEAD, MONDAY)
    assert found == Resize(3, 15, 2, MONDAY + 2 * HOUR_MS, MONDAY + 5 * HOUR_MS, "orders", 14, 4)
    assert re.search(r"\b3 instances\b.*\bMonday 02:00\b.*\bMonday 05:00\b", found.summary)
    assert re.search(r"\borders: 14\b.*\b4\b", found.reason)


@pytest.mark.parametrize(
    ("found", "fires"),
    [
        (advice(4, 4, 4, 14), False),
        (advice(4, 4, 14), True),
        (advice(9, 9, 9), False),
        (advice(4, 4, 14, instances=3), False),
        (advice(4, 4, 14, each=None), False),
        (advice(now=12), True),
        (advice(), False),
    ],
)
def test_it_fires_by_the_lead_before_the_peak(found: Advice, fires: bool) -> None:
    assert (resize_of(found, LEAD, MONDAY) is not None) is fires


def test_a_present_need_has_no_end_where_no_hour_ahead_needs_as_much() -> None:
    found = resize_of(advice(4, 4, now=12), LEAD, MONDAY)
    assert found is not None
    assert (found.since_ms, found.until_ms, found.instances) == (None, None, 3)


def test_a_service_whose_last_instance_is_leaving_needs_what_is_known() -> None:
    nothing_known = replace(advice(instances=0), groups=advice().groups[2:])
    for found in (nothing_known, replace(nothing_known, groups=())):
        assert resize_of(found, LEAD, MONDAY) is None
    needed = resize_of(advice(instances=0), LEAD, MONDAY)
    assert needed is not None
    assert (needed.instances, needed.staying) == (1, 0)


class Fleet:
    """A fixed fleet over a day, with an evaluation every minute."""

    def __init__(self) -> None:
        self.newest: Advice | None = None
        self.failure: Exception | None = None
        self.reads = 0
        self.watch = ResizeWatch(self.read, LEAD)
        self.conditions = Conditions(AlertPatience())
        self.minute = 0

    def read(self) -> Advice | None:
        self.reads += 1
        if self.failure is not None:
            raise self.failure
        return self.newest

    def minutes(self, count: int) -> list[Alert]:
        alerts: list[Alert] = []
        for _ in range(count):
            self.minute += 1
            now = ClockReading(MONDAY + 60_000 * self.minute, 60.0 * self.minute)
            alerts = self.conditions.judged({}, now, own=self.watch.alerts(now.ms))
        return alerts


def test_one_peak_is_one_alert_that_ends_when_the_fleet_was_resized() -> None:
    fleet = Fleet()
    assert fleet.minutes(5) == [], "no advice yet"
    fleet.newest = advice(4, 4, 4, 4, 14, 14)
    assert fleet.minutes(60 * 2 + 4) == [], "beyond the lead time, or too recent"
    (first,) = fleet.minutes(10)
    assert first.kind.name == "HeadraceResizeRecommended"
    assert re.search(r"\b3 instances\b.*\bMonday 04:00\b.*\bMonday 06:00\b", first.summary)
    assert first.description.endswith(" 2 h ago)")
    for most in (9, 14, 9, 19):
        fleet.newest = advice(4, 4, 4, 4, most, 14 if most > 9 else 4)
        (still,) = fleet.minutes(5)
        assert still.since_ms == first.since_ms, "a changed forecast is the same alert"
    for failure in (Unreachable("no instance answers"), KeyError("groups")):
        fleet.failure = failure
        assert fleet.minutes(2) != []
    fleet.failure, fleet.newest = None, advice(4, 4, 4, 4, 14, 14, instances=4)
    assert fleet.minutes(1) == []


def test_it_is_over_with_the_hours_that_it_names() -> None:
    fleet = Fleet()
    fleet.newest = advice(4, 14, 4)
    assert fleet.minutes(119) != []
    assert fleet.minutes(2) == []


def test_the_advice_is_read_once_a_minute() -> None:
    fleet = Fleet()
    for second in range(0, 121, 10):
        fleet.watch.alerts(MONDAY + second * 1_000)
    assert fleet.reads == 3


def test_advice_that_is_computed_more_often_is_read_as_often() -> None:
    fleet = Fleet()
    watch = ResizeWatch(fleet.read, LEAD, read_seconds=20)
    for second in range(0, 121, 10):
        watch.alerts(MONDAY + second * 1_000)
    assert fleet.reads == 7


class Answer:
    """An instance with a fixed response."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, path: str, **_: Any) -> Any:
        assert path == "/v1/advice"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def post(self, path: str, body: object) -> Any:
        raise NotImplementedError

    def put(self, path: str, document: object, version: str) -> Any:
        raise NotImplementedError

    def delete(self, path: str, version: str = "*", **parameters: Any) -> Any:
        raise NotImplementedError


def test_an_advice_over_rest_is_what_the_leader_computed() -> None:
    found = advice(4, 14)
    assert RestAdvice(Answer(asdict(found) | {"sentence": "later", "new": 1}))() == replace(
        found, sentence="later"
    )
    assert RestAdvice(Answer({"computed_ms": None}))() is None
    assert RestAdvice(Answer(NotFound("an older version")))() is None
    with pytest.raises(DamagedState):
        RestAdvice(Answer({"computed_ms": "x"}))()
