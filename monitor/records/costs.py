"""Computes the cost of an incident: its bad time, and the error budget that it spent. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from mirror.model.datastreams.objectives import Objective
from mirror.wording import exact_duration_text
from monitor.burn.rates import Budget
from monitor.objectives.late_times import TimeInterval
from monitor.records.record import BudgetCost, IncidentRecord

_MOST_APART_MS: Final = 120_000
"""Maximum ms between two evaluations. A longer time between evaluations counts as unobserved."""
_FLUSH_MS: Final = 60_000


def opened_costs(budgets: Iterable[Budget]) -> tuple[BudgetCost, ...]:
    """Return the state of each error budget at the detection of an incident."""
    return tuple(BudgetCost(objective_name(budget.objective), budget.left, budget.left) for budget in budgets)


def with_costs(
    record: IncidentRecord, budgets: Iterable[Budget], now_ms: int, is_bad: bool | None
) -> IncidentRecord:
    """Update the costs in a record after an evaluation. `is_bad`: True for bad time, None if unknown."""
    passed_ms = max(now_ms - record.judged_ms, 0)
    seconds = passed_ms / 1000
    is_seen = passed_ms <= _MOST_APART_MS and is_bad is not None
    left = {objective_name(budget.objective): budget.left for budget in budgets}
    return replace(
        record,
        judged_ms=max(now_ms, record.judged_ms),
        unknown_seconds=record.unknown_seconds + (0.0 if is_seen else seconds),
        costs=tuple(
            cost if left.get(cost.objective) is None else replace(cost, now=left[cost.objective])
            for cost in record.costs
        ),
    )


def observed_interval(record: IncidentRecord, now_ms: int) -> TimeInterval:
    """Return the time since the last evaluation of an incident; empty if that is too long ago to be
    continuous."""
    is_seen = 0 <= now_ms - record.judged_ms <= _MOST_APART_MS
    return (record.judged_ms if is_seen else now_ms, now_ms)


def seconds_since(record: IncidentRecord, now_ms: int) -> float:
    """Return the seconds since the last evaluation of an incident; 0 if that is too long ago to be
    continuous."""
    passed_ms = now_ms - record.judged_ms
    return passed_ms / 1000 if 0 < passed_ms <= _MOST_APART_MS else 0.0


def is_news(record: IncidentRecord, written: IncidentRecord | None) -> bool:
    """Return whether the record of an incident must be written again.

    Costs and measured values change in every evaluation, so they are written once a minute or together with
    another change.
    """
    if written is None or record.judged_ms - written.judged_ms >= _FLUSH_MS:
        return True
    return _without_costs(record) != _without_costs(written)


def _without_costs(record: IncidentRecord) -> IncidentRecord:
    return replace(
        record, judged_ms=0, bad_seconds=0.0, unknown_seconds=0.0, costs=(), evidence={}, causes={}
    )


def objective_name(objective: Objective) -> str:
    """Return the name by which the costs of an incident refer to an objective."""
    limit = exact_duration_text(objective.milliseconds)
    return f"{objective.target_percent:g} % within {limit} over {objective.period_days} d"
