"""What worker processes and instances spend on the states of their partitions; one instance is measured."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Final, cast

from api.metrics.movement import movement_metrics
from api.movement.topics import own_topics, topics_told
from api.services import Services
from mirror.instance.workers.lane_table import LaneTable
from mirror.model.datastreams.lanes import LaneKey, LaneSpec, LaneStarted
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.movement.history import LanePosition
from mirror.model.movement.position_watch import PositionWatch
from mirror.model.topics import TopicPartition
from mirror.worker.protocol import LaneRate, LaneRates, MessageReader, encode_message
from tests.fakes.clock import ManualClock

INSTANCES: Final = 50
REPORT_SECONDS: Final = 5.0
_LANES: Final = 4_000
_REPORTS, _FIRST_REPORTS, _REPORTS_A_TURN, _REPORTS_A_SCRAPE = 36, 12, 2, 3


class Spent(defaultdict[str, float]):
    """Seconds of processor time, by what they were for."""

    def __init__(self) -> None:
        super().__init__(float)

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Whatever runs meanwhile."""
        began = time.process_time()
        yield
        self[what] += time.process_time() - began


def seconds_of(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def states_of_fleet(what: str, busy: float, late: float, *, segments: bool) -> float:
    """Print and return percent of a core, of all instances. `busy`: the part of lanes that report each time;
    `late`: of lanes that are behind. `segments`: the source deletes some every two minutes, and so every lane
    has a time to loss."""
    parts = ("watched", "told", "noted", "said", "scraped")
    before, spent, after = (
        _of_one_instance(busy, late, segments=segments, with_position=one) for one in (False, True, False)
    )
    spent["noted"] -= (before["noted"] + after["noted"]) / 2
    shares = [spent[one] / (_REPORTS * REPORT_SECONDS) * INSTANCES * 100 for one in parts]
    print(f"  {what:32}" + "".join(f"{one:8.2f} %" for one in (*shares, sum(shares))), flush=True)
    return sum(shares)


def _of_one_instance(busy: float, late: float, *, segments: bool, with_position: bool) -> Spent:
    clock, spent, uncounted = ManualClock(), Spent(), Spent()
    table, worker = LaneTable(clock), _Worker()
    specs = [_spec(number) for number in range(_LANES)]
    for spec in specs:
        table.begin(spec, 0)
        table.note(LaneStarted(spec.key, 0))
    status = SimpleNamespace(lanes=table.states, uncopied=())
    services = cast(Services, SimpleNamespace(status=status, clock=clock))
    heard_at: float | None = None
    for number in range(_REPORTS + _FIRST_REPORTS):
        now_spent = spent if number >= _FIRST_REPORTS else uncounted
        clock.advance(REPORT_SECONDS)
        count = _LANES if number == 0 else int(_LANES * busy)
        start = number // 24 * 100 if segments else 0
        waiting = [
            0 if at >= _LANES * busy else 100_000 - number * 100 if at < _LANES * late else 50
            for at in range(count)
        ]
        places: Sequence[LanePosition | None] = [None] * count
        if with_position:
            places = worker.positions(clock.monotonic(), number, start, waiting, now_spent)
        rates = [_report(*one) for one in zip(specs[:count], waiting, places, strict=True)]
        if with_position:
            _tell([rate for rate in rates if rate.position is not None], now_spent)
        with now_spent.on("noted"):
            table.measure(rates, heard_at)
        heard_at = clock.monotonic()
        if number % _REPORTS_A_TURN == 0:
            with now_spent.on("said"):
                topics_told(own_topics(services))
        if number % _REPORTS_A_SCRAPE == 0:
            with now_spent.on("scraped"):
                for metric in movement_metrics(tuple(table.states.values()), (), clock.monotonic()):
                    assert metric.name
    return spent


class _Worker:
    """What decides in worker processes which positions are said; all lanes of an instance are in one."""

    def __init__(self) -> None:
        self._watches = [PositionWatch() for _ in range(_LANES)]
        self._at = -1.0

    def positions(
        self, at: float, number: int, start: int, waiting: Sequence[int], spent: Spent
    ) -> list[LanePosition | None]:
        """Of the first lanes, as many as `waiting` has. The lag of each is what its report says."""
        checkpoint, moments, found = number * 500, (at, self._at), list[LanePosition | None]()
        lanes = [(*one, _age_ms(one[1])) for one in zip(self._watches, waiting, strict=False)]
        with spent.on("watched"):
            for watch, records, age_ms in lanes:
                end = checkpoint + records
                if watch.withholds(moments, checkpoint, end, end, start, age_ms, 500):
                    found.append(None)
                else:
                    found.append(watch.said(LanePosition(checkpoint, end, end, start)))
        spent["watched"] -= seconds_of(lambda: _walk(lanes))
        self._at = at
        return found


def _walk(lanes: Sequence[tuple[PositionWatch, int, int]]) -> None:
    """What the loop of the bench takes, without what it is for: an engine has its own, for measurements."""
    found = list[LanePosition | None]()
    for _, _, _ in lanes:
        found.append(None)


def _tell(rates: Sequence[LaneRate], spent: Spent) -> None:
    """From a worker process to its instance, as bytes: what positions add to that."""
    if not rates:
        return
    told = seconds_of(lambda: list(MessageReader().feed(encode_message(LaneRates(tuple(rates))))))
    bare = LaneRates(tuple(replace(rate, position=None) for rate in rates))
    spent["told"] += told - seconds_of(lambda: list(MessageReader().feed(encode_message(bare))))


def _report(spec: LaneSpec, waiting: int, place: LanePosition | None) -> LaneRate:
    return LaneRate(spec.key, spec.source, 1e5, 100.0, waiting, _age_ms(waiting), (1.0, 2.0, 3.0), place)


def _age_ms(waiting: int) -> int:
    return min(waiting * 8, 60_000)


def _spec(number: int) -> LaneSpec:
    group, topic = GroupName(f"stream-{number // 200:04}"), f"topic-{number // 20}"
    key = LaneKey(group, TopicPartition(topic, number % 20))
    return LaneSpec(key, TaskName(f"{group}-0"), ClusterRef("east"), ClusterRef("west"), topic)
