"""The order of the advice: the present first, then the forecast, then past hours."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from assigner.advice.past import LeastTerms, least_tasks
from assigner.advice.settings import AdviceSettings
from headrace.foresight.history import DAY, HOUR_MS, PastHours
from headrace.foresight.needs import WEEK, PastNeeds
from headrace.foresight.run import PART, ForesightThread
from headrace.foresight.sizing_advisor import History, Means, SizingAdvisor
from headrace.foresight.sums import PastSums, SumQuery
from mirror.errors import Unreachable
from mirror.instance.loads.advice_store import AdviceStore
from mirror.model.capacity.advice import Advice
from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadSums, PartitionLoad
from mirror.model.topics import TopicPartition
from tests.fakes.clock import ManualClock
from tests.fakes.foresight import T0, T1, means_with, planned_site
from tests.fakes.past import summed
from tests.fakes.site import Site

SETTINGS = AdviceSettings(tasks_per_instance=1)
STEADY = {T0: PartitionLoad(60.0, 1.0), T1: PartitionLoad(60.0, 1.0)}


def steady(_: ClusterRef, __: int) -> Mapping[TopicPartition, PartitionLoad]:
    return STEADY


@pytest.fixture
def site() -> Site:
    return planned_site()


class Recorded:
    """A history that records what was stored when it was read, and fails on demand."""

    def __init__(self, site: Site) -> None:
        self.store = AdviceStore(site.session)
        self.stored: list[Advice | None] = []
        self.since: list[int] = []
        self.is_away = False
        self._sums = summed(steady)

    def sums(
        self, cluster: ClusterRef, query: SumQuery, since_ms: int, until_ms: int
    ) -> Mapping[int, LoadSums]:
        self.stored.append(self.store.read())
        self.since.append((until_ms - since_ms) // HOUR_MS)
        if self.is_away:
            raise Unreachable("Pinot does not answer")
        return self._sums(cluster, query, since_ms, until_ms)

    def history(self, days: int) -> History:
        return History(
            PastSums(self.sums, days), PastHours(lambda cluster, since_ms, _: steady(cluster, since_ms))
        )


def means_of(site: Site, recorded: Recorded) -> Means:
    return means_with(site, SETTINGS, recorded.history(SETTINGS.history_days))


class Hours:
    """Computes past hours, records what was stored then, and fails after some."""

    def __init__(self, site: Site) -> None:
        self.store = AdviceStore(site.session)
        self.clock = site.clock
        self.stored: list[Advice | None] = []
        self.left: int | None = None
        self.lasts = 0.0

    def least(self, sums: LoadSums, terms: LeastTerms) -> int:
        if self.left is not None and self.left <= len(self.stored):
            raise ArithmeticError("no number")
        self.stored.append(self.store.read())
        self.clock.advance(self.lasts)
        return least_tasks(sums, terms)


def test_the_present_is_stored_before_a_history_is_read_and_the_forecast_before_the_past(site: Site) -> None:
    recorded, hours = Recorded(site), Hours(site)
    advisor = SizingAdvisor(means_of(site, recorded), PastNeeds(hours.least))
    advice = advisor.run()
    present = recorded.stored[0]
    assert present is not None
    assert (present.required_tasks, present.peak, present.past_week) == (1, None, None)
    forecast = hours.stored[0]
    assert forecast is not None
    assert forecast.peak is not None
    assert (forecast.peak.most_tasks, forecast.past_week) == (2, None)
    assert advice.past_week is not None
    assert (advice.past_week.hours, advice.past_week.needed_task_hours) == (WEEK, 2 * WEEK)
    assert AdviceStore(site.session).read() == advice


def test_the_present_is_shown_while_the_history_is_away(site: Site) -> None:
    recorded = Recorded(site)
    recorded.is_away = True
    advisor = SizingAdvisor(means_of(site, recorded))
    thread = ForesightThread(advisor, lambda: True, 3600, site.health, ManualClock())
    thread.run_once()
    present = recorded.stored[0]
    assert present is not None
    assert present.required_tasks == 1
    assert thread.advice is not None
    assert (thread.advice.required_tasks, thread.advice.peak) == (1, None)
    assert site.health.conditions()[PART].is_well


def test_a_past_that_fails_leaves_the_forecast_and_goes_on_where_it_stopped(site: Site) -> None:
    site.create("clicks", destination={"cluster": "destination", "name": "clicks.*"})
    site.tick()
    recorded, hours = Recorded(site), Hours(site)
    hours.left = WEEK + 5
    advisor, clock = SizingAdvisor(means_of(site, recorded), PastNeeds(hours.least)), ManualClock()
    thread = ForesightThread(advisor, lambda: True, 3600, site.health, clock)
    thread.run_once()
    assert advisor.has_past_left
    thread.run_once()
    assert not advisor.has_past_left
    assert thread.advice is not None
    assert thread.advice.peak is not None
    assert thread.advice.past_week is None
    assert thread.advice == AdviceStore(site.session).read()
    assert site.health.conditions()[PART].is_well
    hours.left = None
    hours.stored.clear()
    clock.advance(3600)
    thread.run_once()
    thread.run_once()
    assert len(hours.stored) == WEEK, "the other group has been computed"
    assert thread.advice.past_week is not None
    assert thread.advice.past_week.hours == WEEK


def test_a_slow_past_is_computed_in_parts(site: Site) -> None:
    site.create("clicks", destination={"cluster": "destination", "name": "clicks.*"})
    site.tick()
    recorded, hours = Recorded(site), Hours(site)
    hours.lasts = 1.0
    advisor = SizingAdvisor(means_of(site, recorded), PastNeeds(hours.least))
    advisor.present()
    forecast = advisor.forecast()
    assert advisor.past() is None
    assert AdviceStore(site.session).read() == forecast
    advice = advisor.past()
    assert advice is not None
    assert advice.past_week is not None
    assert len(hours.stored) == 2 * WEEK


def test_a_second_run_computes_the_new_hours_and_reads_the_last_day(site: Site) -> None:
    recorded, hours = Recorded(site), Hours(site)
    advisor = SizingAdvisor(means_of(site, recorded), PastNeeds(hours.least))
    advisor.run()
    hours.stored.clear()
    site.clock.advance(3600)
    advisor.run()
    assert len(hours.stored) == 1
    assert recorded.since == [14 * DAY, DAY + 1]


def test_a_new_leader_shows_the_present_and_the_forecast_of_its_predecessor(site: Site) -> None:
    recorded = Recorded(site)
    first = SizingAdvisor(means_of(site, recorded)).run()
    site.clock.advance(600)
    recorded.is_away = True
    present = SizingAdvisor(means_of(site, recorded)).present()
    assert present.computed_ms == first.computed_ms + 600_000
    assert (present.peak, present.past_week) == (first.peak, first.past_week)
    site.clock.advance(3 * 3600)
    later = SizingAdvisor(means_of(site, recorded)).present()
    assert len(later.groups[0].coming) == len(first.groups[0].coming) - 3
    assert later.past_week is None, "it is not that of the last week"


def test_a_cluster_that_fails_is_not_asked_for_every_group(site: Site) -> None:
    for name in ("a", "b", "c", "d", "e"):
        site.create(name, destination={"cluster": "destination", "name": f"{name}.*"})
    site.tick()
    recorded = Recorded(site)
    recorded.is_away = True
    advisor = SizingAdvisor(means_of(site, recorded))
    advisor.run()
    assert len(recorded.since) == 3
    recorded.is_away = False
    recorded.since.clear()
    assert advisor.run().peak is not None
    assert len(recorded.since) == 6


def test_a_history_that_goes_away_leaves_what_was_read(site: Site) -> None:
    recorded = Recorded(site)
    advisor = SizingAdvisor(means_of(site, recorded))
    advisor.run()
    recorded.is_away = True
    site.clock.advance(3600)
    advice = advisor.run()
    assert advice.peak is not None
    assert advice.past_week is not None


def test_with_many_partitions_their_mean_is_read_once(site: Site) -> None:
    asked: list[int] = []

    def loads(cluster: ClusterRef, since_ms: int, until_ms: int) -> Mapping[TopicPartition, PartitionLoad]:
        asked.append((until_ms - since_ms) // HOUR_MS)
        return STEADY

    recorded = Recorded(site)
    many = History(PastSums(recorded.sums, 14), PastHours(loads, most_rates=1))
    advisor = SizingAdvisor(means_with(site, SETTINGS, many))
    advice = advisor.run()
    assert asked == [DAY]
    assert advice.peak is not None
    assert advice.peak.most_tasks == 2


def test_a_total_without_loads_of_partitions_is_not_forecast(site: Site) -> None:
    recorded = Recorded(site)
    silent = History(PastSums(recorded.sums, 14), PastHours(lambda cluster, since_ms, _: {}))
    advisor = SizingAdvisor(means_with(site, SETTINGS, silent))
    advice = advisor.run()
    assert (advice.required_tasks, advice.peak) == (1, None)
    assert "partitions" in advice.why
    assert advice.past_week is not None
