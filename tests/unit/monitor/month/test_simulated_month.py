"""Test a month of five datastreams in virtual time: each real problem is found once, and nothing else.

The month has daily and weekly patterns, noise, three outages, two shifts of traffic, a week with a slow
source, and every other cause once. The planner would always move something, but no rebalance is requested in
vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import pytest
import structlog

from mirror.model.identifiers import DatastreamName
from monitor.alerts.alert import AlertKey
from monitor.alerts.catalogue import BLIND, BURNING, HALTED, LATE, UNJUDGED, WEARING
from monitor.causes.diagnosis import OF_PLACEMENT
from monitor.records.record import Phase
from tests.unit.monitor.month import truth
from tests.unit.monitor.month.flow import PER_MINUTE, STEP_SECONDS, STEPS
from tests.unit.monitor.month.run import Month, Span
from tests.unit.monitor.month.truth import Truth
from tests.unit.monitor.month.world import BUDGETED, HELPED, OBJECTIVE, START_MS

pytestmark = pytest.mark.deep

SEEDS: Final = (1, 2)
MOST_ALERTS_OF_AN_INCIDENT: Final = 2
"""On average: an alert that fires again before its incident closes is a new one."""


@pytest.fixture(scope="module", params=SEEDS)
def month(request: pytest.FixtureRequest) -> Month:
    found = Month(request.param)
    with structlog.testing.capture_logs():
        found.run()
    return found


def spans(month: Month, name: DatastreamName, *kinds: str) -> list[Span]:
    found = [one for one in month.alerts.spans if one.key.datastream == name and one.key.name in kinds]
    return sorted(found, key=lambda one: one.first)


def step_of(moment_ms: int) -> int:
    return (moment_ms - START_MS) // (1_000 * STEP_SECONDS) - 1


def incidents(month: Month, name: DatastreamName) -> list[Span]:
    return [
        Span(
            AlertKey(LATE.name, name),
            step_of(one.opened_ms),
            None if one.closed_ms is None else step_of(one.closed_ms),
        )
        for one in month.records.values()
        if one.datastream == name
    ]


def overlap(span: Span, first: int, end: int) -> bool:
    return span.first <= end and (span.end is None or span.end >= first)


def assert_found_once(actual: Truth, found: Sequence[Span], most_minutes_after: float) -> None:
    """Assert that everything certain was found once, nothing was invented, and nothing lasted more than
    `most_minutes_after` minutes beyond its end."""
    slack = round(most_minutes_after * PER_MINUTE)
    for one in found:
        assert actual.near[max(0, one.first - PER_MINUTE) : one.first + 1].any(), f"invented: {one}"
        assert one.end is None or actual.near[max(0, one.end - slack) : one.end + 1].any(), f"too long: {one}"
    for each in actual.matters:
        of_it = [one for one in found if one.first <= each.end and (one.end is None or one.end >= each.first)]
        assert len(of_it) <= 1, f"{each} {len(of_it)} times: {of_it}"
        assert each.sure is None or (of_it and of_it[0].first <= each.sure), f"missed: {each} {of_it}"


def test_every_true_breach_is_one_incident_and_nothing_else_is(month: Month) -> None:
    for name, flow in month.world.flows.items():
        actual = truth.breaches(flow)
        assert_found_once(actual, incidents(month, name), month.settings.close_seconds / 60 + 3)
        assert any(each.sure is not None for each in actual.matters), "the month must contain a breach"


def test_a_rebalance_is_asked_for_where_it_helps_and_nowhere_else(month: Month) -> None:
    """The planner would always move something: only the cause prevents a rebalance."""
    assert sorted(name for _, name in month.world.asked) == sorted(HELPED)
    assert sorted(month.world.tried) == sorted(HELPED), "no dry run in vain"
    assert all(one.end < STEPS for troubles in month.world.troubles.values() for one in troubles)


def test_the_incident_of_each_trouble_has_its_cause(month: Month) -> None:
    for name, troubles in month.world.troubles.items():
        for trouble in troubles:
            found = [text for step, text in causes(month, name) if trouble.first <= step <= trouble.end]
            assert any(text.startswith(f"{trouble.cause}: ") for text in found), (trouble, found)


def test_a_cause_of_placement_is_found_only_where_it_is_one(month: Month) -> None:
    for name, troubles in month.world.troubles.items():
        for step, text in causes(month, name):
            if text.startswith(tuple(OF_PLACEMENT)):
                at_work = [one for one in troubles if one.first <= step <= one.end]
                assert any(one.cause in OF_PLACEMENT for one in at_work), text


def causes(month: Month, name: DatastreamName) -> list[tuple[int, str]]:
    """Return the causes found, with their steps."""
    return [
        (step_of(entry.time_ms), entry.text)
        for one in month.records.values()
        if one.datastream == name
        for entry in one.timeline
        if entry.phase is Phase.CLASSIFIED
    ]


def test_alerts_fire_for_what_is_the_matter_once_each(month: Month) -> None:
    for name, flow in month.world.flows.items():
        late, open_ones = spans(month, name, LATE.name), incidents(month, name)
        paged = spans(month, name, LATE.name, HALTED.name)
        for each in truth.breaches(flow).matters:
            assert each.sure is None or any(overlap(one, each.first, each.end) for one in paged), each
        for one in late:
            assert any(each.first <= one.first <= (each.end or STEPS) for each in open_ones), one
        assert len(late) <= MOST_ALERTS_OF_AN_INCIDENT * len(open_ones)
        for halt in truth.halts(flow):
            said = [one for one in spans(month, name, HALTED.name, LATE.name) if one.first <= halt.end]
            assert any(one.end is None or one.end >= halt.end for one in said), halt
        assert len(spans(month, name, HALTED.name)) <= len(truth.halts(flow))
        assert not spans(month, name, UNJUDGED.name)
    (blind,) = spans(month, DatastreamName(""), BLIND.name)
    assert blind.end is not None
    assert month.world.blind[blind.first]


def test_a_budget_that_burns_fast_is_called_out_once(month: Month) -> None:
    """After an outage that has paged, the budget pages only once the backlog should have been copied."""
    for name in BUDGETED:
        actual, matters = burns(month, name, BURNING.name), []
        for each in actual.matters:
            sure = each.sure
            for halt in spans(month, name, HALTED.name):
                if sure is not None and overlap(halt, each.first - PER_MINUTE, sure):
                    sure = max(sure, halt.end or STEPS) + month.catch_up_steps
            matters.append(each._replace(sure=sure))
        assert_found_once(actual._replace(matters=matters), spans(month, name, BURNING.name), 10)


def test_a_budget_that_wears_is_called_out_once_and_not_while_it_burns_fast(month: Month) -> None:
    """Windows of days start at a full hour."""
    for name in BUDGETED:
        found, actual = spans(month, name, WEARING.name), burns(month, name, WEARING.name)
        unhurried = [one._replace(sure=None) for one in actual.matters]
        assert_found_once(actual._replace(matters=unhurried), found, 100)
        assert len([one for one in actual.matters if one.sure is not None]) <= len(found)
        fast = spans(month, name, BURNING.name)
        assert not [
            one for one in found if any(each.first <= one.first < (each.end or STEPS) for each in fast)
        ]


def burns(month: Month, name: DatastreamName, kind: str) -> Truth:
    rules = [one for one in month.rules if one.has_two_windows == (kind == BURNING.name)]
    minimum = month.settings.minimum_records
    return truth.burns(month.world.flows[name], rules, OBJECTIVE.budget, minimum)


def test_a_receiver_hears_each_once_and_its_end(month: Month) -> None:
    """Even a receiver that was unreachable for a day: it is sent the state at the end of that day."""
    for key in {one.key for one in month.alerts.spans}:
        fired = [one for one in month.alerts.spans if one.key == key]
        heard = [one for one in month.told.spans if one.key == key]
        assert all(one.end is not None or fired[-1].end is None for one in heard)
        assert len(heard) <= len(fired)
        missed = [one for one in fired if not any(each.first >= one.first for each in heard)]
        assert all(month.is_away(one.first) for one in missed)
        assert all(earlier.end is not None for earlier, _ in pairwise(heard))
