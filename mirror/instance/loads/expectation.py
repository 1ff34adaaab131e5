"""Expected loads of partitions in the coming hours, for the leader's plans.

A plan uses the larger of the current load and the expected load. It removes no task that a later hour needs.
Without a reliable forecast, plans use the current load.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mirror.model.capacity.quiet_window import QuietWindow
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadLevel, LoadReport, LoadSource, PartitionLoad
from mirror.model.topics import TopicPartition

Loads = Mapping[TopicPartition, PartitionLoad]
HOUR_MS: Final = 3_600_000
_SETTLING: Final = 2
"""Number of earlier observations that are also raised to the forecast.

Otherwise, a plan would treat the forecast as a spike.
"""


@dataclass(frozen=True)
class Expectation:
    """Upper bounds of the forecast loads of partitions. `hours`: maps hour starts (epoch ms) to loads.

    `imminent_hours`: number of next hours whose load counts as current. `consent_hours`: number of next hours
    whose tasks are kept. `why`: reason for a missing forecast, otherwise empty. `totals`: total bytes per
    second of each group, by hour.
    """

    hours: Mapping[int, Loads]
    imminent_hours: int = 2
    consent_hours: int = 6
    why: str = ""
    totals: Mapping[GroupName, Mapping[int, float]] = field(default_factory=dict)

    def to_stay_for(self, group: GroupName, now_ms: int) -> tuple[Loads, ...]:
        """Return the expected loads of the busiest hour within `consent_hours`, or nothing without a
        forecast. They count as another observation: a task is removed only if no observation needs it."""
        until = now_ms + self.consent_hours * HOUR_MS
        soon = {
            hour: total
            for hour, total in self.totals.get(group, {}).items()
            if hour + HOUR_MS > now_ms and hour < until
        }
        return (self.hours[max(soon, key=soon.__getitem__)],) if soon else ()


class ExpectedLoads:
    """Expected loads of each load source. One thread writes, and replaces the value of a source atomically.
    Other threads may read."""

    def __init__(self) -> None:
        self._by_source: dict[LoadSource, Expectation] = {}
        self._quiet: Mapping[GroupName, QuietWindow] = {}

    def put(self, source: LoadSource, expectation: Expectation) -> None:
        """Replace the expected loads of a source."""
        self._by_source[source] = expectation

    def forget(self) -> None:
        """Discard all expected loads."""
        self._by_source, self._quiet = {}, {}

    def put_quiet(self, windows: Mapping[GroupName, QuietWindow]) -> None:
        """Replace the quiet hours (`QuietWindow`) of all groups."""
        self._quiet = dict(windows)

    def quiet(self, group: GroupName) -> QuietWindow | None:
        """Return the quiet hours of a group, or None if it has none or none are learned yet."""
        return self._quiet.get(group)

    def of(self, source: LoadSource) -> Expectation | None:
        """Return the expected loads of a source, or None without a forecast."""
        return self._by_source.get(source)


def with_expected(
    report: LoadReport,
    recent: tuple[Loads, ...],
    expectation: Expectation,
    now_ms: int,
    planned: Collection[TopicPartition] | None = None,
) -> tuple[LoadReport, tuple[Loads, ...]]:
    """Raise the current loads and the latest observations to at least the forecast. Pure.

    `planned`: partitions to plan; None means all. Other partitions, of which a cluster may have many, are
    unchanged. The latest observations are raised too, because tasks are added only if they agree.
    """
    if report.is_blind:
        return report, recent
    ahead = [at for at in expectation.hours if at + HOUR_MS > now_ms]
    if not ahead:
        why = expectation.why or "the forecast has ended"
        return replace(report, notes=(*report.notes, f"planned without a forecast: {why}")), recent
    imminent = [expectation.hours[at] for at in ahead if at < now_ms + expectation.imminent_hours * HOUR_MS]
    places = report.loads.keys() if planned is None else planned
    present = {place: report.loads[place] for place in places if place in report.loads}
    raised = _raised(present, imminent)
    before, after = _total(present.values()), _total(raised.values())
    older, newest = recent[:-_SETTLING], recent[-_SETTLING:]
    newest = tuple(
        _raised({at: forecast[at] for at in places if at in forecast}, imminent) for forecast in newest
    )
    notes = report.notes
    if after > before:
        share = f"{after / before:.2f} times the current load" if before else "more than the current load"
        notes = (*notes, f"planned by the forecast of the next hours: {share}")
    return replace(report, loads={**report.loads, **raised}, notes=notes), (*older, *newest)


def _raised(present: Loads, several: Sequence[Loads]) -> dict[TopicPartition, PartitionLoad]:
    """Return the loads, raised to the expected load of each partition where that is higher."""
    found = dict(present)
    for expected in several:
        _raise(found, expected)
    return found


def _raise(found: dict[TopicPartition, PartitionLoad], expected: Loads) -> None:
    """Raise each partition to its expected bytes and messages per second, separately. Partitions without a
    current load are not added."""
    for partition, load in found.items():
        other = expected.get(partition)
        if other is None or (load.level is not LoadLevel.DEFAULT and _covers(load, other)):
            continue
        messages = load.messages_per_second
        if other.messages_per_second is not None:
            messages = max(messages or 0.0, other.messages_per_second)
        level = LoadLevel.TOPIC if load.level is LoadLevel.DEFAULT else load.level
        rate = other.bytes_per_second
        if load.level is not LoadLevel.DEFAULT:
            rate = max(rate, load.bytes_per_second)
        found[partition] = replace(load, bytes_per_second=rate, messages_per_second=messages, level=level)


def _covers(load: PartitionLoad, other: PartitionLoad) -> bool:
    messages = load.messages_per_second or 0.0
    return load.bytes_per_second >= other.bytes_per_second and messages >= (other.messages_per_second or 0.0)


def _total(loads: Iterable[PartitionLoad]) -> float:
    return sum(load.bytes_per_second for load in loads)
