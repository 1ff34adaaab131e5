"""CPU time that worker processes and instances spend on the states of their partitions, measured on one
instance."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Final, cast

from api.metrics.partitions import movement_metrics
from api.resources.movement import own_topics, topics_document
from api.services import Services
from mirror.instance.workers.lane_table import LaneTable
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import LaneState, Lifecycle
from mirror.model.datastreams.lanes import LaneKey, LaneSpec, LaneStarted
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.movement.history import UNKNOWN_RETENTION, LanePosition
from mirror.model.topics import TopicPartition
from mirror.replication.reports.positions import Positions
from mirror.worker.protocol import LaneRate, LaneRates, MessageReader, encode_message
from tests.fakes.clock import ManualClock

INSTANCES: Final = 50
REPORT_SECONDS: Final = 5.0
_LANES: Final = 4_000
_RECORDS: Final = 500
"""Records copied in each lane between two reports."""
_RECORDS_A_DAY: Final = int(86_400 / REPORT_SECONDS) * _RECORDS
_FIRST_OFFSET: Final = 2 * _RECORDS_A_DAY
_REPORTS_A_DELETION: Final = 24
_REPORTS, _FIRST_REPORTS, _REPORTS_PER_EVALUATION, _REPORTS_PER_SCRAPE = 120, 96, 2, 3


class Spent(defaultdict[str, float]):
    """CPU seconds spent on each purpose."""

    def __init__(self) -> None:
        super().__init__(float)

    @contextmanager
    def on(self, label: str) -> Iterator[None]:
        """Add the CPU time of the `with` block to a purpose."""
        began = time.process_time()
        yield
        self[label] += time.process_time() - began


def seconds_of(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def states_of_fleet(label: str, busy: float, late: float, *, segments: bool) -> float:
    """Print and return the CPU in percent of a core for all instances.

    `busy`: share of lanes that report each time. `late`: share of lanes that are behind. `segments`: the
    source deletes records older than a day every two minutes, so that every lane has a time to loss.
    """
    parts = ("watched", "told", "noted", "said", "scraped")
    before, spent, after = (
        _of_one_instance(busy, late, segments=segments, with_position=one) for one in (False, True, False)
    )
    added = spent["noted"] - (before["noted"] + after["noted"]) / 2
    spent["noted"] = max(added, 0.0)  # a difference of two runs can be below zero by chance
    shares = [spent[part] / (_REPORTS * REPORT_SECONDS) * INSTANCES * 100 for part in parts]
    print(f"  {label:32}" + "".join(f"{one:8.2f} %" for one in (*shares, sum(shares))), flush=True)
    return sum(shares)


def _of_one_instance(busy: float, late: float, *, segments: bool, with_position: bool) -> Spent:
    clock, spent, uncounted = ManualClock(), Spent(), Spent()
    table, specs = LaneTable(clock), [_spec(number) for number in range(_LANES)]
    worker = _Worker(specs)
    for spec in specs:
        table.begin(spec, 0)
        table.note(LaneStarted(spec.key, 0))
    status = SimpleNamespace(lanes=table.states, uncopied=())
    services = cast(Services, SimpleNamespace(status=status, clock=clock))
    answered_at: float | None = None
    for number in range(_REPORTS + _FIRST_REPORTS):
        now_spent = spent if number >= _FIRST_REPORTS else uncounted
        clock.advance(REPORT_SECONDS)
        count = _LANES if number == 0 else int(_LANES * busy)
        kept = number // _REPORTS_A_DELETION * _REPORTS_A_DELETION * _RECORDS
        start = _FIRST_OFFSET - _RECORDS_A_DAY + kept if segments else 0
        waiting = [
            0 if at >= _LANES * busy else 100_000 - number * 100 if at < _LANES * late else 50
            for at in range(count)
        ]
        places = worker.positions(clock.monotonic(), number, start, waiting, now_spent)
        if not with_position:  # computed anyway, so that its effect on the processor caches is in both runs
            places = [None] * count
        rates = [_report(*one) for one in zip(specs[:count], waiting, places, strict=True)]
        if with_position:
            _measure_messages([rate for rate in rates if rate.position is not None], now_spent)
        with now_spent.on("noted"):
            table.measure(rates, answered_at)
            status.in_time = table.in_time
        answered_at = clock.monotonic()
        if number % _REPORTS_PER_EVALUATION == 0:
            with now_spent.on("said"):
                topics_document(own_topics(services))
        if number % _REPORTS_PER_SCRAPE == 0:
            with now_spent.on("scraped"):
                for metric in movement_metrics(table.in_time, (), clock.monotonic()):
                    assert metric.name
    return spent


class _Worker:
    """Position reporting of worker processes; all lanes of an instance are in one worker."""

    def __init__(self, specs: Sequence[LaneSpec]) -> None:
        self._lanes = [_lane(spec) for spec in specs]
        self._positions = Positions(lambda _cluster, _topic: UNKNOWN_RETENTION)

    def positions(
        self, at: float, number: int, start: int, waiting: Sequence[int], spent: Spent
    ) -> list[LanePosition | None]:
        """Return the positions of the first `len(waiting)` lanes, using the lags of their reports."""
        lanes = self._lanes[: len(waiting)]
        for lane, records in zip(lanes, waiting, strict=True):
            lane.progress.ledger.next = lane.read.position = _FIRST_OFFSET + number * _RECORDS
            lane.read.log_start, lane.read.high_watermark = start, lane.checkpoint + records
            lane.observed.measured = _age_ms(records), _RECORDS, _RECORDS * 100
        began = time.process_time()
        found = self._positions.due_positions(lanes, at, 0)
        spent["watched"] += time.process_time() - began
        return found


def _lane(spec: LaneSpec) -> Lane:
    lane = Lane(spec, 1_048_576, ())
    lane.lifecycle = Lifecycle(LaneState.COPYING)
    return lane


def _measure_messages(rates: Sequence[LaneRate], spent: Spent) -> None:
    """Add the cost of positions in the messages from a worker process to its instance."""
    if not rates:
        return
    decoding = seconds_of(lambda: list(MessageReader().feed(encode_message(LaneRates(tuple(rates))))))
    bare = LaneRates(tuple(replace(rate, position=None) for rate in rates))
    spent["told"] += decoding - seconds_of(lambda: list(MessageReader().feed(encode_message(bare))))


def _report(spec: LaneSpec, waiting: int, place: LanePosition | None) -> LaneRate:
    return LaneRate(spec.key, spec.source, 1e5, 100.0, waiting, _age_ms(waiting), (1.0, 2.0, 3.0), place)


def _age_ms(waiting: int) -> int:
    return min(waiting * 8, 60_000)


def _spec(number: int) -> LaneSpec:
    group, topic = GroupName(f"stream-{number // 200:04}"), f"topic-{number // 20}"
    key = LaneKey(group, TopicPartition(topic, number % 20))
    return LaneSpec(key, TaskName(f"{group}-0"), ClusterRef("east"), ClusterRef("west"), topic)
