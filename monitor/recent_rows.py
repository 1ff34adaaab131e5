"""Keeps sums over recent rows of the metrics topic, for windows that end now. Pure.

Histograms are kept per topic and second for two minutes, and per topic and minute for longer windows. Lags
are kept per partition, longest waits per topic and ten seconds, and late records per topic and second. Memory
depends on the number of topics and partitions, not on the number of rows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar

from mirror.errors import CorruptData
from mirror.model.latency import LATENCY_BOUNDS_MS, latency_bucket
from mirror.model.metrics import WAIT_SLOT_MS, MirrorMetric
from mirror.model.rows import HISTOGRAM_COLUMNS, UNKNOWN, avro_schema
from monitor.burn.pieces import TimeRangePiece
from monitor.burn.tally import late_records
from monitor.latency import Observations, Source
from monitor.measurement_sums import PartitionLag, observations
from monitor.objectives.late_times import LateSpan, LateTopics, TopicLateness, is_recent
from monitor.objectives.past import TopicLatencySums

_FINE_MS: Final = 1_000
_COARSE_MS: Final = 60_000
_LONGEST_FINE_MS: Final = 120_000
"""Longest window in ms that is summed from seconds. Longer windows are summed from minutes, and start up to
one minute early."""

_TOPIC: Final = itemgetter("datastream", "source_cluster", "topic")
_NUMBERS: Final = itemgetter("records_copied", *HISTOGRAM_COLUMNS)
_LAG: Final = itemgetter("time_ms", "lag_records", "lag_ms", "interval_ms")

_T = TypeVar("_T")
_Topic = tuple[str, str, str]
_Rows = list[Sequence[int]]
"""Rows or sums of rows, each with the number of records and the histogram."""
_LagReport = tuple[int, int, int, int]
"""Fields of a row: time, number of waiting records, age of the oldest waiting record, and interval."""


def columns_read() -> dict[str, Any]:
    """Return the Avro schema for reading rows, up to the last column that this module uses.

    Later columns are not decoded.
    """
    schema = avro_schema(MirrorMetric)
    names = [field["name"] for field in schema["fields"]]
    last = max(map(names.index, (*HISTOGRAM_COLUMNS, "kafka_partition", "lag_ms", "lag_records")))
    return {**schema, "fields": schema["fields"][: last + 1]}


class _TimeSlots:
    """Rows of each topic, divided into time slots of `length_ms` by the time of measurement."""

    def __init__(self, length_ms: int) -> None:
        self._length = length_ms
        self._by_topic: defaultdict[_Topic, defaultdict[int, _Rows]] = defaultdict(lambda: defaultdict(list))

    def add(self, topic: _Topic, time_ms: int, numbers: Sequence[int]) -> None:
        self._by_topic[topic][time_ms // self._length].append(numbers)

    def forget(
        self, before_ms: int, after_ms: int, past: Callable[[_Topic, int, Sequence[int]], None] | None = None
    ) -> None:
        """Remove the slots before `before_ms`, after passing their rows to `past`.

        Slots after `after_ms` are dropped, too. The rows of each remaining slot are merged.
        """
        for topic, slots in list(self._by_topic.items()):
            for number, rows in list(slots.items()):
                if number * self._length > after_ms:
                    del slots[number]
                elif (number + 1) * self._length <= before_ms:
                    if past is not None:
                        past(topic, number * self._length, _sum(rows))
                    del slots[number]
                elif len(rows) > 1:
                    slots[number] = [_sum(rows)]
            if not slots:
                del self._by_topic[topic]

    def since(self, moment_ms: int, found: defaultdict[_Topic, _Rows]) -> None:
        for topic, slots in self._by_topic.items():
            for number, rows in slots.items():
                if (number + 1) * self._length > moment_ms:
                    found[topic] += rows

    def within(self, period: TimeRangePiece, found: defaultdict[_Topic, _Rows]) -> None:
        wanted = _begun_in(period, self._length)
        for topic, slots in self._by_topic.items():
            for rows in _at(slots, wanted):
                found[topic] += rows


class _Waits:
    """For each topic and slot of ten seconds, the longest wait if above `least_ms`, and the report interval
    in ms."""

    def __init__(self, least_ms: float) -> None:
        self._least = least_ms
        self._by_topic: defaultdict[_Topic, dict[int, tuple[int, int]]] = defaultdict(dict)

    def add(self, topic: _Topic, time_ms: int, age_ms: int, interval_ms: int) -> None:
        if age_ms > self._least:
            slots, number = self._by_topic[topic], time_ms // WAIT_SLOT_MS
            age, interval = slots.get(number, (0, 0))
            slots[number] = max(age, age_ms), max(interval, interval_ms)

    def forget(self, before_ms: int, after_ms: int) -> None:
        for topic, slots in list(self._by_topic.items()):
            for number in [*slots]:
                if number * WAIT_SLOT_MS > after_ms or (number + 1) * WAIT_SLOT_MS <= before_ms:
                    del slots[number]
            if not slots:
                del self._by_topic[topic]

    def stale_seconds(self, period: TimeRangePiece, age_ms: int) -> dict[_Topic, float]:
        found, wanted = {}, _begun_in(period, WAIT_SLOT_MS)
        for topic, slots in self._by_topic.items():
            late = [interval for age, interval in _at(slots, wanted) if age > age_ms]
            if late:
                found[topic] = len(late) * max(WAIT_SLOT_MS, *late) / 1_000
        return found


class _LateRecords:
    """Late records of each topic, for each second in which a lane reported them.

    Contains the timestamp of the oldest late record, and the end of its wait. `least_ms`: age above which a
    record is late; infinity to record nothing.
    """

    def __init__(self, least_ms: float) -> None:
        self._least = least_ms
        self._first = 0 if math.isinf(least_ms) else latency_bucket(least_ms)
        """First histogram bucket that may contain late records."""
        self._by_topic: defaultdict[_Topic, dict[int, LateSpan]] = defaultdict(dict)
        self._newest: dict[tuple[_Topic, int], tuple[int, int]] = {}
        """Time of the last report with late records, and the maximum age in that report, by partition."""

    def add(
        self, place: tuple[_Topic, int], lag: _LagReport, counts: Sequence[int], before: _LagReport | None
    ) -> None:
        """Record the late records in a lane's report about a partition.

        `before`: previous report of the partition. The oldest waiting record limits the age of the records
        that have arrived since, usually more exactly than the histogram bucket.
        """
        if math.isinf(self._least):
            return
        time_ms, _, age_ms, _ = lag
        oldest, highest = time_ms - age_ms, age_ms
        if any(counts[self._first :]):
            top = max(number for number, count in enumerate(counts) if count)
            bound = round(LATENCY_BOUNDS_MS[min(top, len(LATENCY_BOUNDS_MS) - 1)])
            arrived, highest = time_ms - bound, max(highest, bound)
            if before is not None and before[0] <= time_ms and before[2] != UNKNOWN:
                arrived = max(arrived, before[0] - before[2])
            oldest = min(oldest, arrived)
        if highest > self._least:
            if self._newest.get(place, (0, 0))[0] <= time_ms:
                self._newest[place] = time_ms, highest
            slots, number = self._by_topic[place[0]], time_ms // _FINE_MS
            known = slots.get(number, LateSpan(oldest, time_ms, highest))
            slots[number] = LateSpan(
                min(known.oldest_ms, oldest), max(known.until_ms, time_ms), max(known.age_ms, highest)
            )

    def forget(self, before_ms: int, after_ms: int) -> None:
        self._newest = {
            place: newest for place, newest in self._newest.items() if before_ms <= newest[0] <= after_ms
        }
        for topic, slots in list(self._by_topic.items()):
            for number, span in list(slots.items()):
                if not before_ms <= span.until_ms <= after_ms:
                    del slots[number]
            if not slots:
                del self._by_topic[topic]

    def recent_age_ms(self, lags: Mapping[tuple[_Topic, int], _LagReport]) -> dict[_Topic, int]:
        """Map each topic to the maximum age of records in partitions that may still have late records (see
        `is_recent`).

        `lags`: last report of each partition.
        """
        found: dict[_Topic, int] = {}
        for place, (time_ms, age_ms) in self._newest.items():
            newest = lags.get(place)
            if newest is None or is_recent(time_ms, newest[0], newest[3]):
                found[place[0]] = max(found.get(place[0], 0), age_ms)
        return found

    def since(self, moment_ms: int, sources: Collection[Source]) -> dict[_Topic, list[LateSpan]]:
        found = {}
        for topic, slots in self._by_topic.items():
            if Source(*topic[:2]) in sources:
                found[topic] = [span for span in slots.values() if span.until_ms > moment_ms]
        return found


def _begun_in(period: TimeRangePiece, length_ms: int) -> range:
    """Return the numbers of the time slots that start within a piece. No slot belongs to two pieces."""
    return range(-(-period.since_ms // length_ms), -(-period.until_ms // length_ms))


def _at(slots: Mapping[int, _T], wanted: range) -> Iterator[_T]:
    """Yield the data of the wanted time slots, skipping slots without data."""
    if len(wanted) < len(slots):
        return (slots[number] for number in wanted if number in slots)
    return (slot for number, slot in slots.items() if number in wanted)


def _sum(rows: _Rows) -> Sequence[int]:
    return rows[0] if len(rows) == 1 else tuple(map(sum, zip(*rows, strict=True)))


class RecentRows:
    """Sums over the recent rows of the metrics topic.

    Callers decode the rows with the schema of `columns_read`. `least_ms`: age above which waits and late
    records are kept with their times; infinity to keep none.
    """

    def __init__(self, least_ms: float = math.inf) -> None:
        self._waits = _Waits(least_ms)
        self._fine = _TimeSlots(_FINE_MS)
        self._coarse = _TimeSlots(_COARSE_MS)
        """Rows that are too old for the slots of one second."""
        self._lags: dict[tuple[_Topic, int], _LagReport] = {}
        self._late = _LateRecords(least_ms)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row of the metrics topic. The lag of a partition is that of its latest row by time.

        Raises CorruptData if a count is negative.
        """
        topic, lag, numbers = _TOPIC(row), _LAG(row), _NUMBERS(row)
        if min(numbers) < 0:
            raise CorruptData(f"a row of {topic[2]} has a negative count: {min(numbers)}")
        self._fine.add(topic, lag[0], numbers)
        place = topic, row["kafka_partition"]
        known = self._lags.get(place)
        self._late.add(place, lag, numbers[1:], known)
        if known is None or known[0] <= lag[0]:
            self._lags[place] = lag
        self._waits.add(topic, lag[0], lag[2], lag[3])

    def forget(self, now_ms: int, longest_ms: int) -> None:
        """Drop rows whose time is more than `longest_ms` before or after now."""
        since, until = now_ms - longest_ms, now_ms + longest_ms
        is_long = longest_ms > _LONGEST_FINE_MS
        past = self._coarse.add if is_long else None
        self._fine.forget(now_ms - min(longest_ms, _LONGEST_FINE_MS), until, past)
        self._coarse.forget(since, until)
        self._waits.forget(since, until)
        self._late.forget(since, until)
        self._lags = {place: lag for place, lag in self._lags.items() if since <= lag[0] <= until}

    def observe(self, now_ms: int, window_ms: int) -> Observations:
        """Return the measurements of each topic that has rows in the window, which ends now."""
        since = now_ms - window_ms
        found: defaultdict[_Topic, _Rows] = defaultdict(list)
        self._fine.since(since, found)
        if window_ms > _LONGEST_FINE_MS:
            self._coarse.since(since, found)
        sums = ((*topic, *_sum(rows)) for topic, rows in found.items())
        return observations(sums, list(self._lags_since(since)), now_ms)

    def past(self, period: TimeRangePiece, milliseconds: Collection[int]) -> TopicLatencySums:
        """Return the measurements of a past time range, which must not be older than the kept rows.

        If the range does not start at a full minute, the measurements may start up to one minute late.
        `milliseconds`: limits, all at least `least_ms`."""
        found: defaultdict[_Topic, _Rows] = defaultdict(list)
        self._fine.within(period, found)
        self._coarse.within(period, found)
        counts = [_sum(rows)[1:] for rows in found.values()]
        late = {age: [late_records(count, age) for count in counts] for age in milliseconds}
        stale = {age: self._waits.stale_seconds(period, age) for age in milliseconds}
        return TopicLatencySums([*found], [sum(count) for count in counts], late, stale)

    def late(self, sources: Collection[Source], since_ms: int) -> LateTopics:
        """Return, for each topic of the sources, the late records reported after `since_ms`."""
        recent = self._late.recent_age_ms(self._lags)
        found: dict[Source, dict[str, TopicLateness]] = {}
        for topic, late in self._late.since(since_ms, sources).items():
            lateness = TopicLateness(late, recent.get(topic, 0))
            found.setdefault(Source(*topic[:2]), {})[topic[2]] = lateness
        return found

    def _lags_since(self, moment_ms: int) -> Iterator[PartitionLag]:
        for ((group, cluster, topic), _), (time_ms, records, age, interval) in self._lags.items():
            if time_ms >= moment_ms:
                known = None if age == UNKNOWN else age
                yield PartitionLag(Source(group, cluster), topic, records, known, time_ms, interval)
