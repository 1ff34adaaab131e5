"""Evaluates every objective of a datastream over its own window, and takes the worst verdict.

The window of an objective applies only to arrived records. The age of the oldest waiting record is the
current age, from the monitor's own window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from mirror.model.datastreams.datastream import LatencyObjective
from monitor.latency import (
    LatencyObservation,
    LatencyVerdict,
    ObjectiveStatus,
    ObjectiveSubject,
    Observations,
    judge,
    observed,
)

_WORST_FIRST: Final = (
    ObjectiveStatus.BREACHED,
    ObjectiveStatus.HALTED,
    ObjectiveStatus.UNKNOWN,
    ObjectiveStatus.WITHIN,
)


def windows_of(subjects: Iterable[ObjectiveSubject], own_seconds: float) -> frozenset[float]:
    """Return the lengths (seconds) of all windows to read: the monitor's window and the windows of
    objectives."""
    return frozenset({own_seconds}) | {
        float(objective.window_seconds) for subject in subjects for objective in subject.objectives
    }


def least_objective_ms(subjects: Iterable[ObjectiveSubject]) -> int:
    """Return the shortest limit of all objectives in ms; 0 without objectives."""
    return min(
        (
            objective.milliseconds
            for subject in subjects
            for objective in (subject.objective, *subject.objectives)
            if objective is not None
        ),
        default=0,
    )


def judge_all(
    subject: ObjectiveSubject, seen: Mapping[float, Observations], own_seconds: float
) -> LatencyVerdict:
    """Evaluate all objectives of a datastream, and return the worst verdict.

    `seen`: measurements by window. If several verdicts are equally bad, the result contains all their
    sentences.
    """
    now = observed(subject, seen[own_seconds])
    verdicts = []
    if subject.objective is not None:
        verdicts.append(judge(subject, now))
    for objective in subject.objectives:
        short = LatencyObjective(objective.milliseconds, objective.percentile)
        seconds = objective.window_seconds
        is_own = seconds == own_seconds
        whole = now if is_own else _as_of_now(now, observed(subject, seen[seconds]))
        verdicts.append(judge(subject, whole, short))
    if len(verdicts) == 1:
        return verdicts[0]
    worst = min((verdict.standing for verdict in verdicts), key=_WORST_FIRST.index)
    worst_verdicts = [verdict for verdict in verdicts if verdict.standing is worst]
    return replace(
        worst_verdicts[0], sentence="; ".join(dict.fromkeys(verdict.sentence for verdict in worst_verdicts))
    )


def _as_of_now(
    now: LatencyObservation | None, arrived: LatencyObservation | None
) -> LatencyObservation | None:
    """Combine the records that arrived in a longer window with the current backlog.

    Returns None if either is unknown.
    """
    if now is None or arrived is None:
        return None
    return now._replace(records=arrived.records, counts=arrived.counts)
