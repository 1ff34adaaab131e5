"""Is a datastream within its latency objective? Pure.

Rule 1. The oldest record that waits is older than the objective: BREACHED. It will be late when it
        arrives, even if nothing else does.
Rule 2. The objective's percentile of the latencies in the window exceeds it: BREACHED. One late record alone
        is no percentile: of a quiet datastream it would be any.
Rule 3. The service says that something of the datastream is not copied: HALTED. What is measured of the rest
        says nothing about that.
Rule 4. Nothing was measured in the window, or records wait whose age is not known: UNKNOWN. Missing
        evidence is never good news.
Rule 5. Otherwise: WITHIN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.objectives.mode import Mode
from mirror.model.datastreams.objectives.objective import Objective
from mirror.model.metrics import percentile_ms
from mirror.model.topics import EVERY_TOPIC, TopicSelection
from mirror.wording import counted, duration_text, exact_duration_text
from monitor.burn.rates import Budget
from monitor.burn.tally import late_records

_MOST_ANSWERS: Final = 2_000
"""That are remembered of one selection."""


class Standing(StrEnum):
    """Where a datastream stands against its objective."""

    WITHIN = "within"
    BREACHED = "breached"
    HALTED = "halted"
    UNKNOWN = "unknown"


class Source(NamedTuple):
    """Where measurements are from: a group of datastreams that share tasks, and a source cluster."""

    group: str
    cluster: str


class Observation(NamedTuple):
    """What was measured in the window. `lag_ms`: age of the oldest waiting record now. `unaged`: partitions
    whose lag is not known."""

    records: int
    counts: Sequence[int]
    lag_ms: int
    unaged: int = 0


Observations = Mapping[Source, Mapping[str, Observation]]
"""By topic; by `EVERY_TOPIC` alone where all topics of the source count for the one datastream of it."""


@dataclass(frozen=True)
class Subject:
    """A datastream with an objective: the one in short, `objectives`, or both. `halted`: why something of it
    is not copied; empty where the service knows of nothing. `remark`: what it says besides, such as which
    quota holds it back. `paused`: topics of which a person has paused partitions. `mode`: whether the monitor
    acts on a breach; None: as its settings say. `is_alone`: no other datastream is of its group."""

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
class Verdict:
    """A judgement with its reason; `observed_ms` is the objective's percentile, None without records.
    `is_halted`: something is not copied, so no rebalance can help, also where the standing is BREACHED.
    `budgets`: of each of `Subject.objectives`; they change no standing. `limit_ms`: of the objective that
    was judged. `cause`: why it is breached, where that was looked for."""

    standing: Standing
    observed_ms: float | None
    sentence: str
    is_halted: bool = False
    budgets: tuple[Budget, ...] = ()
    limit_ms: int = 0
    cause: str = ""

    def with_budgets(self, budgets: tuple[Budget, ...]) -> Verdict:
        """The same judgement with those."""
        # Every turn makes one for each datastream; `replace` takes three times as long.
        return Verdict(
            self.standing,
            self.observed_ms,
            self.sentence,
            self.is_halted,
            budgets,
            self.limit_ms,
            self.cause,
        )


def observed(subject: Subject, observations: Observations) -> Observation | None:
    """What was measured of the datastream's own topics; None where nothing was."""
    topics = observations.get(subject.source, {})
    if (every := topics.get(EVERY_TOPIC)) is not None:
        return every
    known = _answers_of(subject.selection)
    return _summed([one for topic, one in topics.items() if _selects(subject.selection, topic, known)])


def selects(selection: TopicSelection, topic: str) -> bool:
    """Whether it selects the topic; remembered, because every turn asks the same of thousands."""
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


def _summed(parts: Sequence[Observation]) -> Observation | None:
    if not parts:
        return None
    records, counts, lags, unaged = zip(*parts, strict=True)
    return Observation(sum(records), tuple(map(sum, zip(*counts, strict=True))), max(lags), sum(unaged))


def judge(
    subject: Subject, observation: Observation | None, objective: LatencyObjective | None = None
) -> Verdict:
    """Apply the rules in order, to that objective or the one of the short form; `objectives.verdicts` judges
    all."""
    objective, halted = objective or subject.objective, subject.halted
    assert objective is not None
    limit = objective.milliseconds
    percentile = f"p{objective.percentile:g}"
    wanted = f"wanted {percentile} within {exact_duration_text(objective.milliseconds)}"
    if subject.paused:
        wanted = f"{wanted}; not judged, because a person paused it: {subject.paused}"
    quantile = percentile_ms(observation.counts, objective.percentile) if observation is not None else None
    late = _lateness(objective, observation, quantile)
    remark = f"; {subject.remark}" if subject.remark else ""
    if late:
        why = f"; not copied: {halted}" if halted else remark
        sentence = f"{late}{why}; {wanted}"
        return Verdict(Standing.BREACHED, quantile, sentence, bool(halted), limit_ms=limit)
    if halted:
        sentence = f"not copied: {halted}; {wanted}"
        return Verdict(Standing.HALTED, quantile, sentence, is_halted=True, limit_ms=limit)
    if observation is None:
        sentence = f"nothing was measured{remark}; {wanted}"
        return Verdict(Standing.UNKNOWN, None, sentence, limit_ms=limit)
    if observation.unaged:
        sentence = f"the lag of {counted(observation.unaged, 'partition')} is not known; {wanted}"
        return Verdict(Standing.UNKNOWN, quantile, sentence, limit_ms=limit)
    if quantile is None:
        sentence = f"nothing was late, nothing arrived; {wanted}"
        return Verdict(Standing.WITHIN, None, sentence, limit_ms=limit)
    sentence = f"{percentile} is {duration_text(quantile / 1_000)}; {wanted}"
    return Verdict(Standing.WITHIN, quantile, sentence, limit_ms=limit)


def _lateness(objective: LatencyObjective, observation: Observation | None, quantile: float | None) -> str:
    if observation is not None and observation.lag_ms > objective.milliseconds:
        return f"a record has waited for {_beyond(observation.lag_ms, objective.milliseconds)}"
    if observation is None or quantile is None or quantile <= objective.milliseconds:
        return ""
    if late_records(observation.counts, objective.milliseconds) > 1:
        return f"p{objective.percentile:g} is {_beyond(quantile, objective.milliseconds)}"
    return ""


def _beyond(milliseconds: float, limit_ms: int) -> str:
    """Return a time that is longer than the limit so that it can be told from it."""
    text, limit = duration_text(milliseconds / 1_000), exact_duration_text(limit_ms)
    return f"just over {limit}" if text == limit else text
