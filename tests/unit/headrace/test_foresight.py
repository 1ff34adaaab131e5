"""Test the leader's forecast and advice with a given history."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict

import pytest

from assigner.advice.settings import AdviceSettings
from assigner.planner import LoadPlanner
from headrace.foresight.history import DAY, HOUR_MS, PastHours
from headrace.foresight.run import PART, ForesightThread
from headrace.foresight.sizing_advisor import NO_PAST, Means, SizingAdvisor
from mirror.errors import Unreachable
from mirror.model.identifiers import ClusterRef
from mirror.model.load import PartitionLoad
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE, SOURCE_LOADS
from tests.fakes.clock import ManualClock
from tests.fakes.foresight import T0, T1, means_with, planned_site
from tests.fakes.past import history_of
from tests.fakes.site import Site

NOW = 1_700_000_000_000 // HOUR_MS * HOUR_MS
"""The clock of a site is slightly ahead of this."""
LOAD = PartitionLoad(10.0)
Hour = Mapping[TopicPartition, PartitionLoad]
AskHour = Callable[[ClusterRef, int], Hour]


def busy_at_noon(_: ClusterRef, hour_ms: int) -> Hour:
    """Return between 20 and 180 bytes/s in total for two partitions, with the same curve every day."""
    rate = 50 - 40 * math.cos(hour_ms / HOUR_MS % DAY / DAY * 2 * math.pi)
    return {T0: PartitionLoad(rate, 1.0), T1: PartitionLoad(rate, 1.0)}


def away(_: ClusterRef, hour_ms: int) -> Hour:
    raise Unreachable(f"Pinot does not answer about {hour_ms}")


@pytest.fixture
def site() -> Site:
    return planned_site()


def means_of(site: Site, ask: AskHour | None, **settings: float) -> Means:
    wanted = AdviceSettings.model_validate({"tasks_per_instance": 1, **settings})
    past = None if ask is None else history_of(ask, wanted.history_days)
    return means_with(site, wanted, past)


def test_what_the_day_will_need_is_said_and_expected(site: Site) -> None:
    means = means_of(site, busy_at_noon)
    advice = SizingAdvisor(means).run()
    assert advice.rises is not None
    assert advice.rises.most_tasks == 2
    assert "2 tasks on 2 instances" in advice.sentence
    assert (advice.required_tasks, advice.required_instances, advice.why) == (1, 1, "")
    (need,) = advice.groups
    assert need.tried > 100
    assert need.error is not None
    assert need.error < 0.01
    expectation = means.expected.of(SOURCE_LOADS)
    assert expectation is not None
    assert len(expectation.hours) == 9, "the present hour, and eight until the next run"
    quiet = means.expected.quiet(need.group)
    assert quiet is not None
    assert quiet.contains(NOW // (DAY * HOUR_MS) * DAY * HOUR_MS)
    assert not quiet.contains(NOW // (DAY * HOUR_MS) * DAY * HOUR_MS + 12 * HOUR_MS)
    assert site.client.get("/v1/advice").json()["sentence"] == f"{advice.sentence} (computed 0 ms ago)"
    site.clock.advance(720)
    assert site.client.get("/v1/advice").json()["sentence"].endswith("(computed 12 min ago)")


def test_what_the_last_day_needed_is_shown_beside_what_is_in_force(site: Site) -> None:
    """Two tasks are needed in the 11 hours with more than 100 bytes/s; one task is in force."""
    advice = SizingAdvisor(means_of(site, busy_at_noon)).run()
    assert advice.past_day is not None
    day = {"hours": 24, "task_hours": 24, "peak_task_hours": 48, "needed_task_hours": 35}
    assert asdict(advice.past_day) == day
    assert site.client.get("/v1/advice").json()["past_day"] == day


def test_the_last_week_is_shown_likewise(site: Site) -> None:
    advice = SizingAdvisor(means_of(site, busy_at_noon)).run()
    assert advice.past_week is not None
    week = {"hours": 168, "task_hours": 168, "peak_task_hours": 2 * 168, "needed_task_hours": 7 * 35}
    assert asdict(advice.past_week) == week
    assert site.client.get("/v1/advice").json()["past_week"] == week


def test_a_history_that_is_shorter_than_a_week_says_how_many_hours_are_known(site: Site) -> None:
    advice = SizingAdvisor(means_of(site, busy_at_noon, history_days=3)).run()
    assert advice.past_week is not None
    assert advice.past_week.hours == 3 * DAY


def test_hours_that_pinot_does_not_know_are_in_no_sum(site: Site) -> None:
    def holey(cluster: ClusterRef, hour_ms: int) -> Hour:
        return {} if NOW - 7 * HOUR_MS <= hour_ms < NOW - 2 * HOUR_MS else busy_at_noon(cluster, hour_ms)

    advice = SizingAdvisor(means_of(site, holey)).run()
    assert advice.past_day is not None
    assert (advice.past_day.hours, advice.past_day.task_hours) == (19, 19)
    assert advice.past_week is not None
    assert (advice.past_week.hours, advice.past_week.task_hours) == (163, 163)


def test_a_partition_without_a_load_counts_as_planning_has_it(site: Site) -> None:
    def half(_: ClusterRef, __: int) -> Hour:
        return {T0: PartitionLoad(10.0)}

    advice = SizingAdvisor(means_of(site, half)).run()
    assert advice.past_day is not None
    assert advice.past_day.needed_task_hours == 24 * 2


@pytest.mark.parametrize("ask", [None, away, lambda *_: {}, lambda *_: {TopicPartition("other", 0): LOAD}])
def test_a_past_that_nobody_knows_is_null(ask: AskHour | None, site: Site) -> None:
    advice = SizingAdvisor(means_of(site, ask)).run()
    assert (advice.past_day, advice.past_week) == (None, None)
    answer = site.client.get("/v1/advice").json()
    assert (answer["past_day"], answer["past_week"]) == (None, None)


def test_pinot_away_leaves_the_present_need_and_the_reason(site: Site) -> None:
    means = means_of(site, away)
    advice = SizingAdvisor(means).run()
    assert (advice.required_tasks, advice.rises, advice.sums) == (1, None, None)
    assert "history" in advice.why
    expectation = means.expected.of(SOURCE_LOADS)
    assert expectation is not None
    assert not expectation.hours
    assert "history" in expectation.why


def test_without_pinot_the_advice_knows_only_the_present_need(site: Site) -> None:
    means = means_of(site, None)
    advice = SizingAdvisor(means).run()
    assert advice.required_tasks == 1
    assert NO_PAST in advice.why
    assert means.expected.of(SOURCE_LOADS) is None


def test_a_history_of_a_day_forecasts_nothing(site: Site) -> None:
    """Typical for a new topic or a new service."""

    def young(cluster: ClusterRef, hour_ms: int) -> Hour:
        return busy_at_noon(cluster, hour_ms) if hour_ms >= NOW - DAY * HOUR_MS else {}

    advice = SizingAdvisor(means_of(site, young)).run()
    assert re.search(r"\b2[45] hours\b", advice.why), advice.why
    assert advice.rises is None
    assert advice.required_tasks == 1


def test_forecasts_that_were_far_off_change_no_plan(site: Site) -> None:
    """The load changes tenfold at random from hour to hour."""

    def wild(_: ClusterRef, hour_ms: int) -> Hour:
        rate = 10.0 if random.Random(hour_ms).random() < 0.5 else 100.0
        return {T0: PartitionLoad(rate), T1: PartitionLoad(rate)}

    means = means_of(site, wild, largest_error=0.2)
    SizingAdvisor(means).run()
    expectation = means.expected.of(SOURCE_LOADS)
    assert expectation is not None
    assert not expectation.hours
    assert "median error" in expectation.why


def test_a_group_that_nobody_has_measured_needs_an_unknown_number() -> None:
    one = Site(planner=LoadPlanner())
    one.create()
    advice = SizingAdvisor(means_of(one, None)).run()
    assert (advice.required_tasks, advice.required_instances) == (None, None)
    answer = one.client.get("/v1/advice").json()
    assert answer["required_tasks"] is None
    assert "measured" in answer["why"]


def test_a_datastream_that_is_planned_by_count_needs_what_it_carried(site: Site) -> None:
    site.client.patch("/v1/datastreams/orders", json={"placement": {"load_provider": "none"}})
    site.client.post("/v1/rebalance", json={"datastream": "orders"})
    site.tick()
    advice = SizingAdvisor(means_of(site, busy_at_noon)).run()
    (need,) = advice.groups
    assert (need.now is not None, advice.required_tasks is not None, advice.why) == (True, True, "")
    blind = SizingAdvisor(means_of(site, None)).run()
    assert blind.required_tasks == blind.tasks, "without measurements, the present tasks"


def test_a_history_that_stood_still_is_forecast_for_the_hours_ahead_of_now(site: Site) -> None:
    def gone(cluster: ClusterRef, hour_ms: int) -> Hour:
        return {} if hour_ms >= NOW - 10 * HOUR_MS else busy_at_noon(cluster, hour_ms)

    means = means_of(site, gone)
    SizingAdvisor(means).run()
    expectation, now_ms = means.expected.of(SOURCE_LOADS), site.clock.now_ms()
    assert expectation is not None
    ahead = [(hour - now_ms) / HOUR_MS for hour in sorted(expectation.hours)]
    assert ahead[0] <= 0
    assert ahead[-1] >= 6


def test_before_the_first_computation_nothing_is_advised(site: Site) -> None:
    answer = site.client.get("/v1/advice").json()
    assert (answer["computed_ms"], answer["required_instances"]) == (None, None)
    assert answer["why"]


def test_an_hour_is_asked_for_once_and_a_silent_one_again_while_it_is_young() -> None:
    asked: list[int] = []

    def ask(cluster: ClusterRef, since_ms: int, _: int) -> Hour:
        asked.append((NOW - since_ms) // HOUR_MS)
        return {} if asked[-1] in (1, 30) else busy_at_noon(cluster, since_ms)

    past = PastHours(ask)
    wanted = range(NOW - HOUR_MS, NOW - 49 * HOUR_MS, -HOUR_MS)
    assert len(past.of(SOURCE, wanted, NOW)) == 46
    assert asked == list(range(1, 49))
    asked.clear()
    past.of(SOURCE, wanted, NOW + 1)
    assert asked == [1]


def test_a_pinot_that_goes_away_leaves_the_nearest_past() -> None:
    def ask(cluster: ClusterRef, since_ms: int, _: int) -> Hour:
        return busy_at_noon(cluster, since_ms) if since_ms >= NOW - 50 * HOUR_MS else away(cluster, since_ms)

    wanted = range(NOW - HOUR_MS, NOW - 100 * HOUR_MS, -HOUR_MS)
    assert min(PastHours(ask).of(SOURCE, wanted, NOW)) == NOW - 50 * HOUR_MS
    with pytest.raises(Unreachable):
        PastHours(lambda cluster, since_ms, _: away(cluster, since_ms)).of(SOURCE, wanted, NOW)


def test_a_change_of_tasks_or_datastreams_computes_anew(site: Site) -> None:
    clock = ManualClock()
    thread = ForesightThread(SizingAdvisor(means_of(site, None)), lambda: True, 3600, site.health, clock)
    thread.run_once()
    first = thread.advice
    clock.advance(90)
    thread.run_once()
    assert thread.advice is first, "nothing changed"
    site.create("clicks", destination={"cluster": "destination", "name": "clicks.*"})
    site.tick()
    thread.run_once()
    clock.advance(10)
    thread.run_once()
    assert thread.advice is not None
    assert [one.group for one in thread.advice.groups] == ["clicks", "orders"]
    assert first is not None
    assert thread.advice.tasks > first.tasks


@pytest.mark.parametrize(("interval", "again"), [(3600, 60), (2, 2)])
def test_a_failed_computation_is_repeated_after_a_minute_or_the_interval_if_that_is_shorter(
    site: Site, interval: float, again: float
) -> None:
    clock = ManualClock()
    advisor = SizingAdvisor(means_of(site, None))
    thread = ForesightThread(advisor, lambda: True, interval, site.health, clock)
    site.session.is_up = False
    thread.run_once()
    site.session.is_up = True
    clock.advance(again - 1)
    thread.run_once()
    assert thread.advice is None
    clock.advance(1)
    thread.run_once()
    assert thread.advice is not None


def test_only_a_leader_computes_and_its_health_says_what_goes_wrong(site: Site) -> None:
    clock, leads = ManualClock(), [False]
    advisor = SizingAdvisor(means_of(site, None))
    thread = ForesightThread(advisor, lambda: leads[0], 3600, site.health, clock)
    thread.run_once()
    assert thread.advice is None
    leads[0] = True
    thread.run_once()
    first = thread.advice
    assert first is not None
    assert site.health.conditions()[PART].sentence.startswith(first.sentence)
    thread.run_once()
    assert thread.advice is first
    clock.advance(3600)
    site.session.is_up = False
    thread.run_once()
    assert not site.health.conditions()[PART].is_well
    thread.run_once()
    assert not site.health.conditions()[PART].is_well, "red until a computation succeeds"
    leads[0] = False
    thread.run_once()
    assert PART not in site.health.conditions()
    assert thread.advice is None
