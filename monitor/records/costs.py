"""What an incident costs: of its time, and of the error budgets. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from mirror.model.datastreams.objectives.objective import Objective
from monitor.burn.rates import Budget
from monitor.records.record import BudgetCost, IncidentRecord

_MOST_APART_MS: Final = 120_000
"""Between two turns of one monitor. What lies between turns that are further apart nobody has seen."""
_FLUSH_MS: Final = 60_000


def opened_costs(budgets: Iterable[Budget]) -> tuple[BudgetCost, ...]:
    """When it is detected."""
    return tuple(BudgetCost(objective_name(one.objective), one.left, one.left) for one in budgets)


def with_costs(
    record: IncidentRecord, budgets: Iterable[Budget], now_ms: int, is_bad: bool | None
) -> IncidentRecord:
    """After a turn. `is_bad` None: nobody knows."""
    passed_ms = max(now_ms - record.judged_ms, 0)
    seconds = passed_ms / 1000
    is_seen = passed_ms <= _MOST_APART_MS and is_bad is not None
    left = {objective_name(one.objective): one.left for one in budgets}
    return replace(
        record,
        judged_ms=max(now_ms, record.judged_ms),
        bad_seconds=record.bad_seconds + (seconds if is_seen and is_bad else 0.0),
        unknown_seconds=record.unknown_seconds + (0.0 if is_seen else seconds),
        costs=tuple(
            one if left.get(one.objective) is None else replace(one, now=left[one.objective])
            for one in record.costs
        ),
    )


def seconds_since(record: IncidentRecord, now_ms: int) -> float:
    """Return the seconds since the last turn, as far as it is so near that nothing else happened between."""
    passed_ms = now_ms - record.judged_ms
    return passed_ms / 1000 if 0 < passed_ms <= _MOST_APART_MS else 0.0


def is_news(record: IncidentRecord, written: IncidentRecord | None) -> bool:
    """Whether it is to be written again: what it costs, and the figures of its cause, change with every turn,
    and are written each minute, or with anything else."""
    if written is None or record.judged_ms - written.judged_ms >= _FLUSH_MS:
        return True
    return _without_costs(record) != _without_costs(written)


def _without_costs(record: IncidentRecord) -> IncidentRecord:
    return replace(
        record, judged_ms=0, bad_seconds=0.0, unknown_seconds=0.0, costs=(), evidence={}, causes={}
    )


def objective_name(one: Objective) -> str:
    """By which an incident names what it cost."""
    return f"{one.target_percent:g} % within {one.milliseconds} ms over {one.period_days} d"
