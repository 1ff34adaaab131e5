"""Test the Prometheus metrics of objectives and error budgets."""

from __future__ import annotations

from typing import Final

from prometheus_client import generate_latest

from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName
from monitor.alerts.alert_metrics import AlertMetrics
from monitor.burn.rates import Budget, BurnResult, read_rule
from monitor.latency import LatencyVerdict, ObjectiveStatus

OBJECTIVE: Final = Objective(2_000, 99.5)
RULE: Final = read_rule("14.4 over 1 h and 5 m")
ORDERS: Final = DatastreamName("orders")
LABELS: Final = f'datastream="orders",objective="{OBJECTIVE.text}"'


def lines(metrics: AlertMetrics) -> list[str]:
    text = generate_latest(metrics.registry).decode()
    return [one for one in text.splitlines() if one.startswith(("headrace_error", "headrace_objective"))]


def judged(left: float | None, long_rate: float | None, short_rate: float | None) -> AlertMetrics:
    metrics = AlertMetrics()
    budget = Budget(OBJECTIVE, left, 30, (BurnResult(RULE, long_rate, short_rate),))
    metrics.objectives.show(
        {ORDERS: LatencyVerdict(ObjectiveStatus.BREACHED, 1.0, "late", budgets=(budget,))}
    )
    return metrics


def test_a_budget_with_its_burn_rates_by_window() -> None:
    found = lines(judged(-0.25, 2.0, 15.0))
    assert f"headrace_error_budget_left_ratio{{{LABELS}}} -0.25" in found
    assert f'headrace_error_budget_burn_rate{{{LABELS},window="5 m"}} 15.0' in found
    assert f'headrace_error_budget_burn_rate{{{LABELS},window="1 h"}} 2.0' in found
    standings = [one for one in found if one.startswith("headrace_objective_standing{")]
    assert [one for one in standings if one.endswith(" 1.0")] == [
        'headrace_objective_standing{datastream="orders",standing="breached"} 1.0'
    ]
    assert len(standings) == len(ObjectiveStatus)


def test_what_is_not_known_has_no_series() -> None:
    found = lines(judged(None, 2.0, None))
    assert not [one for one in found if "left_ratio" in one]
    assert [one for one in found if "burn_rate" in one] == [
        f'headrace_error_budget_burn_rate{{{LABELS},window="1 h"}} 2.0'
    ]


def test_who_judges_no_more_shows_nothing() -> None:
    metrics = judged(0.5, 1.0, 1.0)
    metrics.retire()
    assert lines(metrics) == []
