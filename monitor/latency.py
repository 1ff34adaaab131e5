"""Evaluates a datastream against its latency objective. Pure.

Rule 1. The oldest waiting record is older than the objective: BREACHED. The waiting record will be late when
it arrives, even if no other records arrive. Rule 2. The objective's percentile of the latencies in the window
exceeds the objective: BREACHED. A single late record does not count, because with few records it would exceed
every percentile. Rule 3. The service reports that part of the datastream is not copied: HALTED. The
measurements do not include the uncopied partitions. Rule 4. There are no measurements in the window, or
records of unknown age wait: UNKNOWN. Missing measurements never count as good. Rule 5. No other rule applies:
WITHIN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.objectives import Mode, Objective
from mirror.model.latency import percentile_ms
from mirror.model.topics import EVERY_TOPIC, TopicSelection
from mirror.wording import counted, duration_text, exact_duration_text
from monitor.burn.rates import Budget
from monitor.burn.tally import late_records

_MOST_ANSWERS: Final = 2_000
"""Maximum number of topics with a cached result per selection."""


class ObjectiveStatus(StrEnum):
    """Result of comparing a datastream with its objective."""

    WITHIN = "within"
    BREACHED = "breached"
    HALTED = "halted"
    UNKNOWN = "unknown"


class Source(NamedTuple):
    """Group of datastreams and source cluster to which measurements belong."""

    group: str
    cluster: str


class LatencyObservation(NamedTuple):
    """Measurements of records that arrived in a window, and of records that wait.

    `records`: number of records that arrived. `counts`: histogram of the latencies of these records.
    `lag_ms`: current age of the oldest waiting record. `unaged`: number of partitions in which this age is
    unknown.
    """

    records: int
    counts: Sequence[int]
    lag_ms: int
    unaged: int = 0


Observations = Mapping[Source, Mapping[str, LatencyObservation]]
"""Observations by source and topic.

If all topics of a source belong to one datastream, its only topic is `EVERY_TOPIC`.
"""


@dataclass(frozen=True)
class ObjectiveSubject:
    """A datastream and its latency objectives, which the monitor evaluates.

    `halted`: reason why a part of the datastream is not copied, or an empty string. `remark`: information
    from the service, such as a throttling quota. `paused`: topics with partitions that an operator paused.
    `mode`: reaction to a breach, None for the mode in the settings. `is_alone`: its group contains no other
    datastream.
    """

    objective: LatencyObjective | None
    source: Source
    selection: TopicSelection
    halted: str = ""
    paused: str = ""
    remark: str = ""
    objectives: tuple[Objective, ...] = ()
    mode: Mode | None = None
    is_alone: bool = False


@dataclass(frozen=True, slots=True)
class LatencyVerdict:
    """Result of evaluating a datastream against its latency objectives.

    `observed_ms`: measured percentile, None without records. `sentence`: reason for the status. `is_halted`:
    a part of the datastream is not copied, so that a rebalance cannot help even if the status is BREACHED.
    `budgets`: error budget of each objective; they do not affect the status. `limit_ms`: limit of the
    evaluated objective. `cause`: cause of the breach, if determined.
    """

    standing: ObjectiveStatus
    observed_ms: float | None
    sentence: str
    is_halted: bool = False
    budgets: tuple[Budget, ...] = ()
    limit_ms: int = 0
    cause: str = ""

    def with_budgets(self, budgets: tuple[Budget, ...]) -> LatencyVerdict:
        """Return a copy of the verdict with these error budgets."""
        # Called for each datastream in each evaluation; `replace` takes three times as long.
        return LatencyVerdict(
            self.standing, self.observed_ms, self.sentence, self.is_halted, budgets, self.limit_ms, self.cause
        )


def observed(subject: ObjectiveSubject, observations: Observations) -> LatencyObservation | None:
    """Return the measurements of all topics of the datastream; None if there are none."""
    topics = observations.get(subject.source, {})
    if (every := topics.get(EVERY_TOPIC)) is not None:
        return every
    known = _answers_of(subject.selection)
    return _summed(
        [measured for topic, measured in topics.items() if _selects(subject.selection, topic, known)]
    )


def selects(selection: TopicSelection, topic: str) -> bool:
    """Return whether a topic selection includes the topic. Cached, because each evaluation checks the same
    thousands of topics."""
    return _selects(selection, topic, _answers_of(selection))


def _selects(selection: TopicSelection, topic: str, known: dict[str, bool]) -> bool:
    answer = known.get(topic)
    if answer is None:
        answer = known[topic] = selection.matches(topic)
        if len(known) > _MOST_ANSWERS:
            known.clear()
    return answer


@lru_cache(maxsize=2_000)
def _answers_of(_selection: TopicSelection) -> dict[str, bool]:
    return {}


def _summed(parts: Sequence[LatencyObservation]) -> LatencyObservation | None:
    if not parts:
        return None
    records, counts, lags, unaged = zip(*parts, strict=True)
    return LatencyObservation(
        sum(records), tuple(map(sum, zip(*counts, strict=True))), max(lags), sum(unaged)
    )


def judge(
    subject: ObjectiveSubject,
    observation: LatencyObservation | None,
    objective: LatencyObjective | None = None,
) -> LatencyVerdict:
    """Evaluate a datastream against one objective, and return the verdict.

    `objective`: None for the objective in the short form.

    `objectives.verdicts` evaluates all objectives.
    """
    objective, halted = objective or subject.objective, subject.halted
    assert objective is not None
    limit = objective.milliseconds
    percentile = f"p{objective.percentile:g}"
    wanted = f"objective: {percentile} within {exact_duration_text(objective.milliseconds)}"
    if subject.paused:
        wanted = f"{wanted}; not evaluated because paused by an operator: {subject.paused}"
    quantile = percentile_ms(observation.counts, objective.percentile) if observation is not None else None
    late = _lateness(objective, observation, quantile)
    remark = f"; {subject.remark}" if subject.remark else ""
    if late:
        why = f"; not copied: {halted}" if halted else remark
        sentence = f"{late}{why}; {wanted}"
        return LatencyVerdict(ObjectiveStatus.BREACHED, quantile, sentence, bool(halted), limit_ms=limit)
    if halted:
        sentence = f"not copied: {halted}; {wanted}"
        return LatencyVerdict(ObjectiveStatus.HALTED, quantile, sentence, is_halted=True, limit_ms=limit)
    if observation is None:
        sentence = f"no measurements{remark}; {wanted}"
        return LatencyVerdict(ObjectiveStatus.UNKNOWN, None, sentence, limit_ms=limit)
    if observation.unaged:
        sentence = f"the lag of {counted(observation.unaged, 'partition')} is unknown; {wanted}"
        return LatencyVerdict(ObjectiveStatus.UNKNOWN, quantile, sentence, limit_ms=limit)
    if quantile is None:
        sentence = f"no new or late records; {wanted}"
        return LatencyVerdict(ObjectiveStatus.WITHIN, None, sentence, limit_ms=limit)
    sentence = f"{percentile} is {duration_text(quantile / 1_000)}; {wanted}"
    return LatencyVerdict(ObjectiveStatus.WITHIN, quantile, sentence, limit_ms=limit)


def _lateness(
    objective: LatencyObjective, observation: LatencyObservation | None, quantile: float | None
) -> str:
    if observation is not None and observation.lag_ms > objective.milliseconds:
        return f"a record has waited for {_beyond(observation.lag_ms, objective.milliseconds)}"
    if observation is None or quantile is None or quantile <= objective.milliseconds:
        return ""
    if late_records(observation.counts, objective.milliseconds) > 1:
        return f"p{objective.percentile:g} is {_beyond(quantile, objective.milliseconds)}"
    return ""


def _beyond(milliseconds: float, limit_ms: int) -> str:
    """Format a latency above the limit; as "just over" the limit if it would look equal to the limit."""
    text, limit = duration_text(milliseconds / 1_000), exact_duration_text(limit_ms)
    return f"just over {limit}" if text == limit else text
