"""Forecasts of series and loads from their history."""

from __future__ import annotations

import numpy as np
import pytest

from assigner.forecast.outlook import (
    HOUR_MS,
    Loads,
    PastRates,
    hours_of_shapes,
    outlook,
    outlook_of_totals,
)
from assigner.forecast.rules import DAY, WEEK, SeasonalRules, Values
from assigner.forecast.seasonal import ForecastGrade, ForecastInterval, SeasonalForecast
from assigner.what_if.ahead import coming_hours
from assigner.what_if.document import Fallback
from mirror.errors import InvalidRequest
from mirror.model.load import PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

HOW = Fallback(TaskCapacity(100, None, 100))


def continued(series: Values, ahead: int, certainty: float) -> ForecastInterval:
    return SeasonalForecast(series, ahead, certainty).interval()


def graded(series: Values, ahead: int, certainty: float) -> ForecastGrade:
    return SeasonalForecast(series, ahead, certainty).grade()


def weekly(weeks: float, seed: int = 1, noise: float = 0.0) -> Values:
    """Return a series that is highest at noon, with half the load at weekends."""
    hours = np.arange(int(weeks * WEEK))
    days = 1.5 - np.cos(hours % DAY / DAY * 2 * np.pi)
    weekend = np.where(hours // DAY % 7 >= 5, 0.5, 1.0)
    return np.asarray(
        1_000 * days * weekend * (1 + noise * np.random.default_rng(seed).uniform(-1, 1, len(hours)))
    )


def test_what_repeats_is_continued_exactly() -> None:
    whole = weekly(4)
    found = continued(whole[: 3 * WEEK], DAY, 0.9)
    came = whole[3 * WEEK : 3 * WEEK + DAY]
    np.testing.assert_allclose(found.middle[1:], came[1:])  # the next hour also counts the present one
    assert found.middle[0] <= came[0] <= found.high[0]


def test_growth_week_by_week_is_in_the_ratios() -> None:
    series = weekly(4) * np.repeat(1.2 ** np.arange(4), WEEK)
    found = continued(series[: 3 * WEEK + 2 * DAY], DAY, 0.9)
    came = series[3 * WEEK + 2 * DAY : 3 * WEEK + 3 * DAY]
    assert (found.high >= came * 0.999).all()


@pytest.mark.parametrize("seed", range(4))
def test_the_high_end_covers_about_what_was_asked_for(seed: int) -> None:
    found = graded(weekly(3, seed, 0.2), DAY, 0.9)
    assert found.tried == 2 * 7 * DAY
    assert 0.8 <= found.covered <= 0.98
    assert found.error < 0.25


def test_an_unknown_hour_is_no_hour_without_load() -> None:
    series = weekly(3)
    series[-DAY:] = np.nan  # the last day was not measured
    series[-1] = 1_000.0
    known = continued(series, DAY, 0.9)
    assert np.isfinite(known.high).all()
    assert known.middle.min() > 200


def test_a_series_of_nothing_says_nothing() -> None:
    assert np.isnan(continued(np.full(WEEK, np.nan), 3, 0.9).high).all()
    assert graded(np.full(WEEK, np.nan), 3, 0.9).tried == 0


def test_where_nothing_was_carried_nothing_comes_and_where_it_began_a_day_ago_the_same() -> None:
    """The error of such a forecast is unknown, since there are no past ratios; so it has no grade."""
    idle = continued(np.zeros(WEEK), 3, 0.9)
    assert [one.tolist() for one in idle] == [[0.0] * 3] * 3
    begun = np.concatenate([np.zeros(60), np.full(DAY, 1e6)])
    assert continued(begun, 3, 0.9).high.tolist() == [1e6] * 3
    assert graded(np.zeros(WEEK), 3, 0.9).tried == 0
    silent = {hour * HOUR_MS: {TopicPartition("t", 0): PartitionLoad(0.0)} for hour in range(72)}
    assert outlook(silent, 5, 0.9).totals.high.tolist() == [0.0] * 5


@pytest.mark.parametrize("seed", range(3))
def test_forecasts_of_the_past_know_nothing_of_what_came_later(seed: int) -> None:
    random = np.random.default_rng(seed)
    series = weekly(3, seed, 0.3)
    series[random.random(len(series)) < 0.1] = np.nan
    for distance in (1, 5, DAY, DAY + 1, WEEK - 1, WEEK):
        whole = SeasonalRules(series).forecasts(distance)[-1]
        for hour in random.integers(0, len(series), 4):
            then = SeasonalRules(series[: hour + 1]).forecasts(distance)[-1, -1]
            np.testing.assert_equal(whole[hour], then)


def test_a_grade_is_of_the_days_that_are_forecast() -> None:
    """All days are predictable except weekends, which are random."""
    series = weekly(4)
    weekends = np.arange(len(series)) // DAY % 7 >= 5
    series[weekends] *= np.random.default_rng(1).uniform(0.2, 3.0, weekends.sum())
    before_tuesday, before_saturday = series[: 3 * WEEK + DAY], series[: 3 * WEEK + 5 * DAY]
    assert graded(before_tuesday, DAY, 0.9).error < 0.1
    assert graded(before_saturday, DAY, 0.9).error > 0.2


def test_without_a_week_of_forecasts_a_grade_is_of_all_days() -> None:
    assert graded(weekly(1, 1, 0.1), DAY, 0.9).tried > 1_000


@pytest.mark.parametrize(
    ("hours", "ahead", "certainty", "said"),
    [
        (47, 1, 0.9, "not enough"),
        (48, 0, 0.9, "hours ahead"),
        (48, 169, 0.9, "hours ahead"),
        (48, 1, 0.5, "certainty"),
        (48, 1, 1.0, "certainty"),
        (48, 1, float("nan"), "certainty"),
    ],
)
def test_what_makes_no_sense_is_refused(hours: int, ahead: int, certainty: float, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        continued(np.ones(hours), ahead, certainty)


def days_of(*shares: tuple[str, float], days: int = 3, end: int = 3) -> dict[int, Loads]:
    """Return the same loads for each hour; topics exist for the first `end` days."""
    return {
        hour * HOUR_MS: {TopicPartition(topic, 0): PartitionLoad(rate, rate / 10) for topic, rate in shares}
        for hour in range(min(days, end) * DAY)
    }


def test_each_partition_keeps_its_share_of_the_total() -> None:
    found = outlook(days_of(("a", 30.0), ("b", 10.0)), 5, 0.9)
    assert found.first_ms == 3 * DAY * HOUR_MS
    loads = found.loads(0, 80.0)
    assert {one.topic: load.bytes_per_second for one, load in loads.items()} == {"a": 60.0, "b": 20.0}
    assert {one.topic: load.messages_per_second for one, load in loads.items()} == {"a": 6.0, "b": 2.0}


def test_no_partition_is_expected_to_carry_more_than_a_planner_takes() -> None:
    found = outlook(days_of(("a", 30.0), ("b", 10.0)), 5, 0.9).loads(0, 1e13)
    assert {one.topic: load.bytes_per_second for one, load in found.items()} == {"a": 1e12, "b": 1e12}
    assert {one.topic: load.messages_per_second for one, load in found.items()} == {"a": 7.5e11, "b": 2.5e11}


def test_a_deleted_topic_comes_no_more_and_a_new_one_as_it_is() -> None:
    history = days_of(("a", 30.0), ("gone", 500.0)) | {
        hour * HOUR_MS: {
            TopicPartition("a", 0): PartitionLoad(30.0),
            TopicPartition("new", 0): PartitionLoad(7.0),
        }
        for hour in range(2 * DAY - 1, 3 * DAY)
    }
    found = outlook(history, 2, 0.9)
    assert {one.topic for one in found.places} == {"a", "new"}
    assert found.totals.middle[0] == pytest.approx(37.0)


def test_tasks_follow_the_forecast_and_the_growth() -> None:
    found = outlook(days_of(("a", 90.0), ("b", 90.0)), 3, 0.9)
    assert [one.tasks for one in coming_hours(found, 1.0, TaskLimits(), HOW)] == [2, 2, 2]
    rows = coming_hours(found, 0.5, TaskLimits(), HOW)
    assert [(one.tasks, one.most_tasks, one.bytes_per_second) for one in rows] == [(1, 1, 90.0)] * 3
    with pytest.raises(InvalidRequest, match="growth"):
        coming_hours(found, float("nan"), TaskLimits(), HOW)


def test_an_hour_of_which_nothing_is_known_is_named() -> None:
    history = {hour: loads for hour, loads in days_of(("a", 30.0)).items() if hour // HOUR_MS % DAY != 2}
    with pytest.raises(InvalidRequest, match="3 hours ahead"):
        outlook(history, 5, 0.9)
    with pytest.raises(InvalidRequest, match="history is empty"):
        outlook({}, 5, 0.9)
    with pytest.raises(InvalidRequest, match="more than 5 years"):
        outlook(days_of(("a", 30.0)) | {10**9 * HOUR_MS: {}}, 5, 0.9)


@pytest.mark.parametrize("ahead", [1, 24, 30, WEEK])
def test_sums_and_a_few_hours_forecast_what_the_whole_history_does(ahead: int) -> None:
    random = np.random.default_rng(ahead)
    names = [TopicPartition("t", number) for number in range(3)]
    history = {
        hour * HOUR_MS: {one: PartitionLoad(float(rate)) for one, rate in zip(names, rates, strict=True)}
        for hour, rates in enumerate(random.lognormal(3, 0.5, (2 * WEEK, 3)))
    }
    whole = outlook(history, ahead, 0.9)
    last = max(history)
    few = {
        hour: np.array([(load.bytes_per_second, np.nan) for load in history[hour].values()])
        for hour in hours_of_shapes(last, ahead)
    }
    totals = {hour: sum(load.bytes_per_second for load in loads.values()) for hour, loads in history.items()}
    places = {name: place for place, name in enumerate(names)}
    found = outlook_of_totals(totals, PastRates(places, few, few[last]), ahead, 0.9)
    np.testing.assert_array_equal(found.shapes, whole.shapes)
    np.testing.assert_array_equal(found.totals, whole.totals)
    assert len(few) <= DAY + ahead
