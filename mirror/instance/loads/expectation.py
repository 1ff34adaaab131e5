"""What partitions are expected to carry in the hours ahead, for the leader's plans.

A forecast is put here; a planning counts the larger of the present load and of what the imminent
hours are expected to bring, and gives up no task that the hours after them need. What is not expected, or is
not to be trusted, leaves a plan as the present load makes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mirror.model.identifiers import GroupName
from mirror.model.load import LoadLevel, LoadReport, LoadSource, PartitionLoad
from mirror.model.sizing.quiet_window import QuietWindow
from mirror.model.topics import TopicPartition

Loads = Mapping[TopicPartition, PartitionLoad]
HOUR_MS: Final = 3_600_000
_SETTLING: Final = 2
"""Observations before the present one that are raised, too: what a forecast says is no spike."""


@dataclass(frozen=True)
class Expectation:
    """Loads of a source cluster's partitions at the high end of a forecast, by the begin of the hour (epoch
    ms). `imminent_hours`: what these bring is counted as if it were there. `consent_hours`: tasks that these
    need stay. `why`: why nothing is expected; empty where something is. `totals`: bytes per second of all
    partitions of a group together, by hour; groups that are not forecast are not among them."""

    hours: Mapping[int, Loads]
    imminent_hours: int = 2
    consent_hours: int = 6
    why: str = ""
    totals: Mapping[GroupName, Mapping[int, float]] = field(default_factory=dict)

    def to_stay_for(self, group: GroupName, now_ms: int) -> tuple[Loads, ...]:
        """Of the hours that tasks of the group must stay for the one that is the heaviest of it; it counts
        as one more observation: tasks are given up only where every observation spares them."""
        until = now_ms + self.consent_hours * HOUR_MS
        soon = {
            hour: total
            for hour, total in self.totals.get(group, {}).items()
            if hour + HOUR_MS > now_ms and hour < until
        }
        return (self.hours[max(soon, key=soon.__getitem__)],) if soon else ()


class ExpectedLoads:
    """By load source. Written by one thread and read by others: a source's value is replaced whole."""

    def __init__(self) -> None:
        self._by_source: dict[LoadSource, Expectation] = {}
        self._quiet: Mapping[GroupName, QuietWindow] = {}

    def put(self, source: LoadSource, expectation: Expectation) -> None:
        """In place of what was expected of the source."""
        self._by_source[source] = expectation

    def forget(self) -> None:
        """Nothing is expected of any."""
        self._by_source, self._quiet = {}, {}

    def put_quiet(self, windows: Mapping[GroupName, QuietWindow]) -> None:
        """The quiet hours of the groups that have some, in place of all that were known."""
        self._quiet = dict(windows)

    def quiet(self, group: GroupName) -> QuietWindow | None:
        """None: it has none, or nobody has learned them."""
        return self._quiet.get(group)

    def of(self, source: LoadSource) -> Expectation | None:
        """None: nobody forecasts."""
        return self._by_source.get(source)


def with_expected(
    report: LoadReport,
    recent: tuple[Loads, ...],
    expectation: Expectation,
    now_ms: int,
    planned: Collection[TopicPartition] | None = None,
) -> tuple[LoadReport, tuple[Loads, ...]]:
    """The present loads and those observed before, as a plan that looks ahead counts them. Pure.

    `planned`: the partitions that are planned now; only their loads are raised, and what was observed last is
    given of them alone, as there may be a few among the many of a cluster. None: all.

    Tasks are added where the newest observations agree, so that these are raised as well.
    """
    if report.is_blind:
        return report, recent
    ahead = [at for at in expectation.hours if at + HOUR_MS > now_ms]
    if not ahead:
        why = expectation.why or "what was forecast is over"
        return replace(report, notes=(*report.notes, f"planned without a forecast: {why}")), recent
    imminent = [expectation.hours[at] for at in ahead if at < now_ms + expectation.imminent_hours * HOUR_MS]
    places = report.loads.keys() if planned is None else planned
    present = {one: report.loads[one] for one in places if one in report.loads}
    raised = _raised(present, imminent)
    before, after = _total(present.values()), _total(raised.values())
    older, newest = recent[:-_SETTLING], recent[-_SETTLING:]
    newest = tuple(_raised({at: one[at] for at in places if at in one}, imminent) for one in newest)
    notes = report.notes
    if after > before:
        share = f"{after / before:.2f} times the present load" if before else "more than the present load"
        notes = (*notes, f"planned by the forecast of the next hours: {share}")
    return replace(report, loads={**report.loads, **raised}, notes=notes), (*older, *newest)


def _raised(present: Loads, several: Sequence[Loads]) -> dict[TopicPartition, PartitionLoad]:
    """The larger of the present loads and of each that is expected."""
    found = dict(present)
    for expected in several:
        _raise(found, expected)
    return found


def _raise(found: dict[TopicPartition, PartitionLoad], expected: Loads) -> None:
    """Each dimension by itself; of partitions that the present does not know nothing is added."""
    for partition, one in found.items():
        other = expected.get(partition)
        if other is None or (one.level is not LoadLevel.DEFAULT and _covers(one, other)):
            continue
        messages = one.messages_per_second
        if other.messages_per_second is not None:
            messages = max(messages or 0.0, other.messages_per_second)
        level = LoadLevel.TOPIC if one.level is LoadLevel.DEFAULT else one.level
        rate = other.bytes_per_second
        if one.level is not LoadLevel.DEFAULT:
            rate = max(rate, one.bytes_per_second)
        found[partition] = replace(one, bytes_per_second=rate, messages_per_second=messages, level=level)


def _covers(one: PartitionLoad, other: PartitionLoad) -> bool:
    messages = one.messages_per_second or 0.0
    return one.bytes_per_second >= other.bytes_per_second and messages >= (other.messages_per_second or 0.0)


def _total(loads: Iterable[PartitionLoad]) -> float:
    return sum(one.bytes_per_second for one in loads)
