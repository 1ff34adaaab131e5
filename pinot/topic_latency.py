"""How late the records of each topic were: two questions of the monitor about thousands of topics.

Both are asked several times a minute, so answers are kept as Pinot gives them, in rows of numbers or as
columns, and no object is made for a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Final, TypeAlias

from mirror.model.metrics import LATENCY_BUCKETS, latency_bucket
from mirror.model.rows import HISTOGRAM_COLUMNS
from pinot.client import PinotClient, Row
from pinot.queries import MOST_GROUPS
from pinot.time_range import TimeRange

Place: TypeAlias = tuple[str, str, str]
"""Group of datastreams that share tasks, source cluster, topic."""

_SLOT_MS: Final = 10_000
"""Lanes measure at least once in this, by default."""
_MOST_AGES: Final = 20
"""In one query."""
_HISTOGRAM: Final = ", ".join(f"sum({column})" for column in HISTOGRAM_COLUMNS)


def arrived_by_topic(client: PinotClient, when: TimeRange) -> list[Row]:
    """Of every topic with rows in the range: datastream (the group), source cluster, topic, records copied,
    and the `LATENCY_BUCKETS` counts of its histogram. Numbers are as Pinot sums them. Raises what
    `PinotClient.ask` raises."""
    return client.ask(
        f"select datastream, source_cluster, topic, sum(records_copied), {_HISTOGRAM} "  # noqa: S608
        "from mirrorMetrics where time_ms >= %(since)s and time_ms < %(until)s "
        f"group by datastream, source_cluster, topic limit {MOST_GROUPS}",
        {"since": when.since_ms, "until": when.until_ms},
    ).rows


@dataclass(frozen=True, slots=True)
class LateColumns:
    """Topics as columns of one length. By age in ms: `beyond`, records of the buckets above the one in which
    the age lies; `within`, those of its own bucket; `stale_seconds`, for how long something had waited for
    more than that, to the next ten seconds, or to the interval of the measurements where that is longer."""

    places: Sequence[Place]
    records: Sequence[int]
    beyond: Mapping[int, Sequence[float]]
    within: Mapping[int, Sequence[float]]
    stale_seconds: Mapping[int, Sequence[float]]


def lateness_by_topic(client: PinotClient, when: TimeRange, ages_ms: Sequence[int]) -> LateColumns:
    """Of every topic with rows in the range. Raises what `PinotClient.ask` raises."""
    first, *others = (
        _lateness(client, when, ages_ms[start : start + _MOST_AGES])
        for start in range(0, max(len(ages_ms), 1), _MOST_AGES)
    )
    beyond, within, stale = dict(first.beyond), dict(first.within), dict(first.stale_seconds)
    for other in others:
        rows = {place: number for number, place in enumerate(other.places)}
        order = [rows.get(place) for place in first.places]
        for known, more in (
            (beyond, other.beyond),
            (within, other.within),
            (stale, other.stale_seconds),
        ):
            known |= {
                age: [0.0 if at is None else column[at] for at in order] for age, column in more.items()
            }
    return LateColumns(first.places, first.records, beyond, within, stale)


def _lateness(client: PinotClient, when: TimeRange, ages_ms: Sequence[int]) -> LateColumns:
    parts = list(_parts(ages_ms))
    ages = {f"age{number}": age for number, age in enumerate(ages_ms)}
    sums = ", ".join(f"sum({' + '.join(HISTOGRAM_COLUMNS[at] for at in part)})" for part in parts)
    stale = "".join(
        f", distinctcount(case when lag_ms > %({name})s then floor(time_ms / {_SLOT_MS}) else -1 end), "
        f"max(case when lag_ms > %({name})s then 0 else 1 end)"
        for name in ages
    )
    answer = client.ask(
        f"select datastream, source_cluster, topic, max(interval_ms), {sums}{stale} "  # noqa: S608
        "from mirrorMetrics where time_ms >= %(since)s and time_ms < %(until)s "
        f"group by datastream, source_cluster, topic limit {MOST_GROUPS}",
        {"since": when.since_ms, "until": when.until_ms, **ages},
    )
    if not answer.rows:
        nothing: dict[int, Sequence[float]] = dict.fromkeys(ages_ms, ())
        return LateColumns((), (), nothing, nothing, nothing)
    groups, clusters, topics, intervals, *numbers = zip(*answer.rows, strict=True)
    counts, slots = numbers[: len(parts)], numbers[len(parts) :]
    own = {age: [latency_bucket(age) in part for part in parts].index(True) for age in ages_ms}
    seconds = [(one if one > _SLOT_MS else _SLOT_MS) / 1_000 for one in intervals]  # max() is slow
    return LateColumns(
        list(zip(groups, clusters, topics, strict=True)),
        list(map(int, _added(counts, len(topics)))),
        {age: _added(counts[at + 1 :], len(topics)) for age, at in own.items()},
        {age: counts[at] for age, at in own.items()},
        # What was not stale was counted as one more slot.
        {
            age: [(slot - fine) * each for slot, fine, each in zip(stale, fines, seconds, strict=True)]
            for age, stale, fines in zip(ages_ms, slots[::2], slots[1::2], strict=True)
        },
    )


def _parts(ages_ms: Iterable[int]) -> Iterator[range]:
    """The buckets in parts that each age needs apart: its own, those below and those above."""
    begin = 0
    for own in sorted({latency_bucket(age) for age in ages_ms}):
        if own > begin:
            yield range(begin, own)
        yield range(own, own + 1)
        begin = own + 1
    if begin < LATENCY_BUCKETS:
        yield range(begin, LATENCY_BUCKETS)


def _added(columns: Sequence[Sequence[float]], length: int) -> Sequence[float]:
    """Row by row."""
    if not columns:
        return [0.0] * length
    total = columns[0]
    for column in columns[1:]:
        total = list(map(add, total, column))
    return total
